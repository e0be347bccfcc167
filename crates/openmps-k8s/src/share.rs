//! Shares: what a claim's allocation asks for on this node.

use crate::driver::Driver;
use crate::gpu::{Gpu, MIB};
use crate::parameters::{Parameters, ParametersError};
use crate::quantity;
use k8s_openapi::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim};
use scheduling::Class;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A claim by its names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimName {
    /// Its namespace in Kubernetes.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl std::fmt::Display for ClaimName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A share of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuShare {
    /// The claim's request, without the part after a slash.
    pub request: String,
    /// The pool of its device.
    pub pool: String,
    /// Its device's name.
    pub device: String,
    /// The allocation's own id, if the cluster gives ids.
    pub share_id: Option<String>,
    /// The GPU.
    pub uuid: String,
    /// SMs of the GPU.
    pub all_sms: u32,
    /// Its SMs.
    pub sms: u32,
    /// Its memory, bytes.
    pub memory_bytes: u64,
    /// Programs that it may have at once, as the scheduler counts them.
    pub clients: u64,
    /// The claim says that number itself, so that more are refused.
    pub limits_clients: bool,
    /// What is set beyond.
    pub parameters: Parameters,
}

impl GpuShare {
    /// SMs that its programs may have: a ceiling above its own goes before.
    pub fn cap_sms(&self) -> u32 {
        self.parameters.limit_sms.unwrap_or(self.sms)
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.parameters.class.unwrap_or_default()
    }
}

/// A namespace of the server: shares of which each is on a GPU of its own. A container has one directory, so
/// the shares of a claim are in as few namespaces as can be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Its name, [`is_share_name`].
    pub name: String,
    /// Its shares.
    pub shares: Vec<GpuShare>,
    /// GPUs of other claims of the same pod that have this namespace too, so that a container which names them all
    /// has one directory.
    pub joined: Vec<String>,
}

/// Why a claim is not prepared.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// There is another claim of that name by now.
    #[error("there is another claim of this name by now, with UID {0}")]
    Replaced(String),
    /// The scheduler has not allocated it.
    #[error("the claim is not allocated")]
    NotAllocated,
    /// Nothing of it is this driver's.
    #[error("nothing of the claim's allocation is of driver {driver}; its drivers are {others}")]
    AnotherDriver {
        /// This driver.
        driver: String,
        /// Those of the allocation.
        others: String,
    },
    /// A device that this node does not have.
    #[error("request {request}: this node has no GPU {device:?}; it has {there}")]
    NoDevice {
        /// The claim's request.
        request: String,
        /// What was allocated.
        device: String,
        /// What there is.
        there: String,
    },
    /// More than the GPU has.
    #[error("request {request}: {wanted} of {what} are more than the GPU's {has}")]
    Beyond {
        /// The claim's request.
        request: String,
        /// Which capacity.
        what: &'static str,
        /// What was allocated.
        wanted: u64,
        /// What the GPU has.
        has: u64,
    },
    /// A capacity that cannot be read.
    #[error("request {request}: capacity {what}: {reason}")]
    Capacity {
        /// The claim's request.
        request: String,
        /// Which capacity.
        what: &'static str,
        /// Why.
        reason: String,
    },
    /// A container names it beside another claim, and cannot have both.
    #[error("container {container} names the claims {claims}: {reason}")]
    Together {
        /// The container.
        container: String,
        /// The claims that it names.
        claims: String,
        /// Why it cannot have them.
        reason: String,
    },
    /// Parameters of the claim or its class.
    #[error("parameters of the {of}: {error}")]
    Parameters {
        /// `claim` or `class`.
        of: &'static str,
        /// What is wrong.
        error: ParametersError,
    },
}

/// Reads the shares of a claim that this driver is to prepare on a node with these GPUs.
///
/// # Errors
/// Why the claim cannot be prepared.
pub fn of_claim(
    driver: &Driver,
    wanted: &ClaimName,
    claim: &ResourceClaim,
    gpus: &[Gpu],
) -> Result<Vec<Namespace>, ClaimError> {
    let uid = claim.metadata.uid.clone().unwrap_or_default();
    if uid != wanted.uid {
        return Err(ClaimError::Replaced(uid));
    }
    let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
    let allocation = allocation.and_then(|allocation| allocation.devices.as_ref());
    let devices = allocation.ok_or(ClaimError::NotAllocated)?;
    let results = devices.results.as_deref().unwrap_or_default();
    let mine: Vec<_> = results.iter().filter(|result| result.driver == driver.name()).collect();
    if mine.is_empty() {
        let mut others: Vec<&str> = results.iter().map(|result| result.driver.as_str()).collect();
        others.dedup();
        let driver = driver.name().to_owned();
        return Err(ClaimError::AnotherDriver { driver, others: others.join(", ") });
    }
    let mut configs = Vec::new();
    for config in devices.config.iter().flatten() {
        let Some(opaque) = config.opaque.as_ref().filter(|of| of.driver == driver.name()) else {
            continue;
        };
        let parameters = Parameters::parse(driver, &opaque.parameters.0).map_err(|error| {
            let of = if config.source == "FromClass" { "class" } else { "claim" };
            ClaimError::Parameters { of, error }
        })?;
        configs.push((config.requests.clone().unwrap_or_default(), parameters));
    }
    let mut shares = Vec::new();
    for result in mine {
        let mut parameters = Parameters::default();
        let is_for = |of: &&(Vec<String>, Parameters)| {
            let named = |name: &String| *name == result.request || *name == base(&result.request);
            of.0.is_empty() || of.0.iter().any(named)
        };
        configs.iter().filter(is_for).for_each(|(_, of)| parameters.merge(of));
        let mut share = read(result, parameters, gpus)?;
        share.limits_clients = asks_for_clients(claim, &share.request);
        let fits = share.parameters.check(share.sms, share.memory_bytes, share.all_sms);
        fits.map_err(|error| ClaimError::Parameters { of: "claim", error })?;
        shares.push(share);
    }
    Ok(group(&wanted.uid, shares))
}

/// Whether a claim's request says how many clients it wants: without that the number is the scheduler's default.
fn asks_for_clients(claim: &ResourceClaim, request: &str) -> bool {
    let spec = serde_json::to_value(&claim.spec).unwrap_or_default();
    let requests = spec["devices"]["requests"].as_array().cloned().unwrap_or_default();
    let asks = |of: &Value| {
        let names = of["capacity"]["requests"].as_object();
        names.is_some_and(|names| names.keys().any(|key| key.rsplit('/').next() == Some("clients")))
    };
    requests.iter().filter(|of| of["name"] == request).any(|of| {
        asks(&of["exactly"])
            || of["firstAvailable"].as_array().is_some_and(|all| all.iter().any(asks))
    })
}

/// A request's own name: that of one of several alternatives has them after a slash.
fn base(request: &str) -> &str {
    request.split('/').next().unwrap_or_default()
}

fn read(
    result: &DeviceRequestAllocationResult,
    parameters: Parameters,
    gpus: &[Gpu],
) -> Result<GpuShare, ClaimError> {
    let request = base(&result.request).to_owned();
    let Some(gpu) = gpus.iter().find(|gpu| gpu.name == result.device) else {
        let there: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        return Err(ClaimError::NoDevice { request, device: result.device.clone(), there });
    };
    // A cluster without consumable capacity gives the device to one claim as a whole.
    let capacity = |what: &'static str, all: u64| -> Result<u64, ClaimError> {
        let Some(consumed) = result.consumed_capacity.as_ref() else { return Ok(all) };
        let of = consumed.iter().find(|(name, _)| name.rsplit('/').next() == Some(what));
        let Some((_, value)) = of else { return Ok(all) };
        let wanted = quantity::parse(&value.0).map_err(|reason| ClaimError::Capacity {
            request: request.clone(),
            what,
            reason,
        })?;
        match wanted {
            0 => Err(ClaimError::Capacity {
                request: request.clone(),
                what,
                reason: "0 is no share".to_owned(),
            }),
            _ if wanted > all => {
                Err(ClaimError::Beyond { request: request.clone(), what, wanted, has: all })
            }
            _ => Ok(wanted),
        }
    };
    let sms = capacity("sms", u64::from(gpu.sms))?;
    let memory_bytes = capacity("memory", gpu.memory_bytes)?;
    let clients = capacity("clients", control::report::CLIENTS_MAX)?;
    Ok(GpuShare {
        pool: result.pool.clone(),
        device: gpu.name.clone(),
        share_id: result.share_id.clone(),
        uuid: gpu.uuid.clone(),
        all_sms: gpu.sms,
        sms: u32::try_from(sms).unwrap_or(gpu.sms),
        // Limits are in MiB.
        memory_bytes: memory_bytes.next_multiple_of(MIB),
        clients,
        limits_clients: false,
        parameters,
        request,
    })
}

/// Puts shares into namespaces, of which each has at most one share of a GPU.
fn group(claim_uid: &str, shares: Vec<GpuShare>) -> Vec<Namespace> {
    let mut namespaces: Vec<Namespace> = Vec::new();
    for share in shares {
        let has_gpu = |of: &Namespace| of.shares.iter().any(|other| other.uuid == share.uuid);
        match namespaces.iter_mut().find(|of| !has_gpu(of)) {
            Some(namespace) => namespace.shares.push(share),
            None => {
                let number = namespaces.len();
                let name = match (&share.share_id, number) {
                    (Some(id), _) => share_name(id),
                    (None, 0) => share_name(claim_uid),
                    (None, _) => format!("{}_{number}", share_name(claim_uid)),
                };
                let shares = vec![share];
                namespaces.push(Namespace { name, shares, ..Namespace::default() });
            }
        }
    }
    namespaces
}

/// A namespace's name from an id: `s` and its letters and digits.
fn share_name(id: &str) -> String {
    let plain = id.chars().filter(char::is_ascii_alphanumeric);
    format!("s{}", plain.map(|c| c.to_ascii_lowercase()).collect::<String>())
}

/// Whether a namespace's name may be one that this driver has given: `s` and 32 hexadecimal digits.
pub fn is_share_name(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('s') else { return false };
    let digits = rest.split('_').next().unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The pods that a claim is reserved for, by name.
pub fn pods_of(claim: &ResourceClaim) -> Vec<String> {
    let status = claim.status.iter().flat_map(|status| status.reserved_for.iter().flatten());
    status.filter(|of| of.resource == "pods").map(|of| of.name.clone()).collect()
}

/// What an annotation of a claim may change while its pods run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resize {
    /// SMs.
    pub sms: Option<u32>,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
    /// Class.
    pub class: Option<Class>,
    /// Priority.
    pub priority: Option<u8>,
}

impl Resize {
    /// Reads the value of the claim's annotation, a JSON object.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Resize, String> {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| format!("{text:?} is no JSON object: {error}"))?;
        let fields = value.as_object().ok_or_else(|| format!("{text:?} is no JSON object"))?;
        let mut read = Resize::default();
        for (name, value) in fields {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            match name.as_str() {
                "sms" => {
                    let sms = quantity::parse(&text)?;
                    let sms = u32::try_from(sms).ok().filter(|sms| *sms > 0);
                    read.sms = Some(sms.ok_or_else(|| format!("sms: {text} is no share"))?);
                }
                "memory" => {
                    let bytes = quantity::parse(&text)?;
                    match bytes {
                        0 => return Err("memory: 0 is no share".to_owned()),
                        _ => read.memory_bytes = Some(bytes.next_multiple_of(MIB)),
                    }
                }
                "class" => {
                    read.class = Some(text.parse::<Class>().map_err(|error| error.to_string())?)
                }
                "priority" => match text.as_str() {
                    "0" | "1" => read.priority = text.parse().ok(),
                    _ => return Err(format!("priority: 0 or 1, not {text}")),
                },
                other => {
                    return Err(format!(
                        "{other:?} cannot be changed: there are sms, memory, class and priority"
                    ));
                }
            }
        }
        Ok(read)
    }

    /// The share as it is to be from now on: never more than what was allocated.
    ///
    /// # Errors
    /// What is more.
    pub fn of(&self, allocated: &GpuShare) -> Result<GpuShare, String> {
        let mut share = allocated.clone();
        if let Some(sms) = self.sms {
            if sms > allocated.cap_sms() {
                return Err(format!(
                    "sms: {sms} are more than the {} allocated",
                    allocated.cap_sms()
                ));
            }
            share.sms = sms;
            share.parameters.limit_sms = None;
        }
        if let Some(bytes) = self.memory_bytes {
            if bytes > allocated.memory_bytes {
                let has = allocated.memory_bytes;
                return Err(format!("memory: {bytes} bytes are more than the {has} allocated"));
            }
            share.memory_bytes = bytes;
        }
        share.parameters.class = self.class.or(share.parameters.class);
        share.parameters.priority = self.priority.or(share.parameters.priority);
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DRIVER_NAME;
    use serde_json::json;

    fn gpus() -> Vec<Gpu> {
        let gpu = |name: &str| Gpu {
            name: name.into(),
            uuid: format!("GPU-{name}"),
            sms: 8,
            memory_bytes: 4 << 30,
            ..Gpu::default()
        };
        vec![gpu("gpu-a"), gpu("gpu-b")]
    }

    fn result(request: &str, device: &str, id: u8, sms: &str, memory: &str) -> Value {
        json!({"request": request, "driver": DRIVER_NAME, "pool": "node1", "device": device,
            "shareID": format!("00000000-0000-0000-0000-0000000000{id:02x}"),
            "consumedCapacity": {"sms": sms, "memory": memory, "clients": "1"}})
    }

    fn read(results: Value, config: Value) -> Result<Vec<Namespace>, String> {
        let claim: ResourceClaim = serde_json::from_value(json!({
            "metadata": {"name": "c", "namespace": "n", "uid": "u"},
            "spec": {},
            "status": {"allocation": {"devices": {"results": results, "config": config}}},
        }))
        .unwrap();
        let name = ClaimName { namespace: "n".into(), name: "c".into(), uid: "u".into() };
        let driver = Driver::new(DRIVER_NAME).unwrap();
        of_claim(&driver, &name, &claim, &gpus()).map_err(|error| error.to_string())
    }

    fn config(source: &str, requests: &[&str], fields: Value) -> Value {
        let mut parameters = fields;
        parameters["apiVersion"] = json!("gpu.openmps.io/v1alpha1");
        parameters["kind"] = json!("ShareConfig");
        json!({"source": source, "requests": requests,
            "opaque": {"driver": DRIVER_NAME, "parameters": parameters}})
    }

    #[test]
    fn shares_of_one_claim_are_in_few_namespaces() {
        let namespaces = read(
            json!([
                result("a", "gpu-a", 1, "2", "1Gi"),
                result("b", "gpu-a", 2, "3", "2Gi"),
                result("c/alternative", "gpu-b", 3, "5", "512Mi"),
            ]),
            json!([]),
        )
        .unwrap();
        assert_eq!(namespaces.len(), 2);
        assert!(namespaces.iter().all(|of| is_share_name(&of.name)));
        assert_eq!(namespaces[0].name, "s00000000000000000000000000000001");
        let of_first: Vec<&str> =
            namespaces[0].shares.iter().map(|of| of.request.as_str()).collect();
        assert_eq!(of_first, ["a", "c"]);
        assert_eq!(
            (namespaces[1].shares[0].sms, namespaces[1].shares[0].memory_bytes),
            (3, 2 << 30)
        );
    }

    #[test]
    fn parameters_apply_to_their_requests_and_the_claim_s_go_before() {
        let class = config("FromClass", &["a"], json!({"class": "batch", "limitSms": 8}));
        let claim = config("FromClaim", &[], json!({"class": "latency"}));
        let other = json!({"source": "FromClaim", "opaque": {"driver": "other.io", "parameters": {"x": 1}}});
        let results =
            json!([result("a", "gpu-a", 1, "2", "1Gi"), result("b", "gpu-b", 2, "3", "1Gi"),]);
        let namespaces = read(results, json!([class, other, claim])).unwrap();
        let shares = &namespaces[0].shares;
        assert_eq!((shares[0].class(), shares[0].cap_sms()), (Class::Latency, 8));
        assert_eq!((shares[1].class(), shares[1].cap_sms()), (Class::Latency, 3));
    }

    #[test]
    fn clients_are_limited_where_the_claim_says_a_number() {
        let asks = |spec: Value| {
            let claim: ResourceClaim =
                serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            asks_for_clients(&claim, "gpu")
        };
        let of = |name: &str, asked: Value| {
            json!({"devices": {"requests": [{"name": name,
                "exactly": {"deviceClassName": "c", "capacity": {"requests": asked}}}]}})
        };
        assert!(asks(of("gpu", json!({"clients": "2"}))));
        assert!(!asks(of("gpu", json!({"sms": "2"}))) && !asks(of("x", json!({"clients": "2"}))));
        assert!(!asks(json!({})));
        let several = json!([{"name": "a", "deviceClassName": "c",
            "capacity": {"requests": {"clients": "2"}}}]);
        assert!(asks(
            json!({"devices": {"requests": [{"name": "gpu", "firstAvailable": several}]}})
        ));
    }

    #[test]
    fn a_device_without_consumed_capacity_is_whole() {
        let results =
            json!([{"request": "a", "driver": DRIVER_NAME, "pool": "node1", "device": "gpu-a"}]);
        let namespaces = read(results, json!([])).unwrap();
        let share = &namespaces[0].shares[0];
        assert_eq!((share.sms, share.memory_bytes), (8, 4 << 30));
    }

    #[test]
    fn wrong_claims_are_refused_with_what_is_wrong() {
        let one = |sms: &str, memory: &str| json!([result("a", "gpu-a", 1, sms, memory)]);
        let unknown = config("FromClaim", &[], json!({"colour": "red"}));
        for (results, config, part) in [
            (one("9", "1Gi"), json!([]), "request a: 9 of sms are more than the GPU's 8"),
            (one("2", "5Gi"), json!([]), "5368709120 of memory are more than the GPU's 4294967296"),
            (one("0", "1Gi"), json!([]), "capacity sms: 0 is no share"),
            (one("x", "1Gi"), json!([]), "\"x\" is no quantity"),
            (json!([result("a", "gpu-9", 1, "2", "1Gi")]), json!([]), "it has gpu-a, gpu-b"),
            (one("2", "1Gi"), json!([unknown]), "parameters of the claim: \"colour\" is no field"),
            (
                json!([{"request": "a", "driver": "other.io", "pool": "p", "device": "d"}]),
                json!([]),
                "nothing of the claim's allocation is of driver gpu.openmps.io; its drivers are other.io",
            ),
        ] {
            let error = read(results, config).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_resize_stays_within_what_was_allocated() {
        let share = GpuShare { sms: 4, memory_bytes: 1 << 30, ..GpuShare::default() };
        let of = |text: &str| Resize::parse(text).and_then(|resize| resize.of(&share));
        let less = of(r#"{"sms": 2, "memory": "512Mi", "class": "batch", "priority": 1}"#).unwrap();
        assert_eq!((less.sms, less.memory_bytes, less.class()), (2, 512 << 20, Class::Batch));
        assert_eq!(of("{}").unwrap(), share);
        for (text, part) in [
            (r#"{"sms": 5}"#, "more than the 4 allocated"),
            (r#"{"memory": "2Gi"}"#, "more than the"),
            (r#"{"colour": 1}"#, "cannot be changed"),
            (r#"{"sms": 0}"#, "no share"),
            ("[]", "no JSON object"),
            ("{", "no JSON object"),
        ] {
            assert!(of(text).unwrap_err().contains(part), "{text}");
        }
    }
}
