//! An API server's simulator: the few kinds that the agent reads and writes, and a scheduler that allocates shares.

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, patch, post};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// A driver's name that is not ours.
pub const OTHER_DRIVER: &str = "gpu.example.com";

/// What the API server keeps.
#[derive(Default)]
pub struct Objects {
    /// By namespace and name.
    pub claims: BTreeMap<(String, String), Value>,
    /// By namespace and name.
    pub pods: BTreeMap<(String, String), Value>,
    /// By name.
    pub slices: BTreeMap<String, Value>,
    /// In the order in which they came.
    pub events: Vec<Value>,
    /// Every call that changed something: verb and path.
    pub calls: Vec<String>,
    shares: u64,
}

pub type Shared = Arc<Mutex<Objects>>;

/// The server; ends with the runtime.
pub struct Cluster {
    pub objects: Shared,
    pub address: std::net::SocketAddr,
}

fn not_found() -> Response {
    failure(StatusCode::NOT_FOUND, "NotFound")
}

fn failure(code: StatusCode, reason: &str) -> Response {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "message": reason, "code": code.as_u16()});
    (code, Json(status)).into_response()
}

async fn get_claim(State(all): State<Shared>, Path(of): Path<(String, String)>) -> Response {
    match all.lock().unwrap().claims.get(&of) {
        Some(claim) => Json(claim.clone()).into_response(),
        None => not_found(),
    }
}

async fn get_pod(State(all): State<Shared>, Path(of): Path<(String, String)>) -> Response {
    match all.lock().unwrap().pods.get(&of) {
        Some(pod) => Json(pod.clone()).into_response(),
        None => not_found(),
    }
}

async fn apply_status(
    State(all): State<Shared>,
    Path(of): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let applied: Value = serde_json::from_slice(&body).unwrap();
    let mut all = all.lock().unwrap();
    all.calls.push(format!("PATCH status of {}/{}", of.0, of.1));
    let Some(claim) = all.claims.get_mut(&of) else { return not_found() };
    if applied["metadata"]["uid"] != claim["metadata"]["uid"] {
        return failure(StatusCode::CONFLICT, "Conflict");
    }
    // As the API server checks: each device is one of the allocation, and its data are small.
    let results = claim["status"]["allocation"]["devices"]["results"].as_array().unwrap().clone();
    for device in applied["status"]["devices"].as_array().unwrap() {
        let same = |of: &Value, key: &str| of.get(key) == device.get(key);
        let keys = ["driver", "pool", "device", "shareID"];
        if !results.iter().any(|of| keys.iter().all(|key| same(of, key))) {
            return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
        }
        assert!(device["data"].to_string().len() < 10 << 10);
    }
    claim["status"]["devices"] = applied["status"]["devices"].clone();
    Json(claim.clone()).into_response()
}

async fn get_slice(State(all): State<Shared>, Path(name): Path<String>) -> Response {
    match all.lock().unwrap().slices.get(&name) {
        Some(slice) => Json(slice.clone()).into_response(),
        None => not_found(),
    }
}

async fn apply_slice(State(all): State<Shared>, Path(name): Path<String>, body: Bytes) -> Response {
    let slice: Value = serde_json::from_slice(&body).unwrap();
    let mut all = all.lock().unwrap();
    all.calls.push(format!("PATCH slice {name}"));
    if let Some(before) = all.slices.get(&name) {
        let generation = |of: &Value| of["spec"]["pool"]["generation"].as_i64().unwrap();
        if generation(&slice) < generation(before) {
            return failure(StatusCode::UNPROCESSABLE_ENTITY, "Invalid");
        }
    }
    all.slices.insert(name, slice.clone());
    Json(slice).into_response()
}

async fn delete_slice(State(all): State<Shared>, Path(name): Path<String>) -> Response {
    match all.lock().unwrap().slices.remove(&name) {
        Some(slice) => Json(slice).into_response(),
        None => not_found(),
    }
}

async fn get_node(Path(name): Path<String>) -> Response {
    let metadata = json!({"name": name, "uid": "node-uid"});
    Json(json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}))
        .into_response()
}

async fn create_event(State(all): State<Shared>, Path(_): Path<String>, body: Bytes) -> Response {
    let event: Value = serde_json::from_slice(&body).unwrap();
    let mut all = all.lock().unwrap();
    let same = |of: &Value| of["metadata"]["name"] == event["metadata"]["name"];
    if all.events.iter().any(same) {
        return failure(StatusCode::CONFLICT, "AlreadyExists");
    }
    all.events.push(event.clone());
    (StatusCode::CREATED, Json(event)).into_response()
}

impl Cluster {
    /// Serves on a port of its own.
    pub fn start(runtime: &tokio::runtime::Runtime) -> Cluster {
        let objects = Shared::default();
        let resource = "/apis/resource.k8s.io/v1";
        let claims = format!("{resource}/namespaces/{{namespace}}/resourceclaims/{{name}}");
        let slices = format!("{resource}/resourceslices/{{name}}");
        let router = Router::new()
            .route(&claims, get(get_claim))
            .route(&format!("{claims}/status"), patch(apply_status))
            .route(&slices, get(get_slice).patch(apply_slice).delete(delete_slice))
            .route("/api/v1/nodes/{name}", get(get_node))
            .route("/api/v1/namespaces/{namespace}/pods/{name}", get(get_pod))
            .route("/api/v1/namespaces/{namespace}/events", post(create_event))
            .with_state(Arc::clone(&objects));
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Cluster { objects, address }
    }

    /// A kubeconfig file's text.
    pub fn kubeconfig(&self) -> String {
        json!({"apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]})
        .to_string()
    }

    /// The devices of the only slice.
    pub fn devices(&self) -> Vec<Value> {
        let all = self.objects.lock().unwrap();
        let devices = all.slices.values().next().map(|slice| slice["spec"]["devices"].clone());
        devices.and_then(|devices| devices.as_array().cloned()).unwrap_or_default()
    }

    pub fn events(&self) -> Vec<Value> {
        self.objects.lock().unwrap().events.clone()
    }

    /// Makes a claim and allocates it, as the scheduler does by a device's capacities: what is not asked for is the
    /// policy's default.
    ///
    /// # Errors
    /// It does not fit.
    pub fn allocate(&self, wanted: &Wanted) -> Result<Value, String> {
        let devices = self.devices();
        let mut all = self.objects.lock().unwrap();
        let mut results = Vec::new();
        for (request, place, asked) in &wanted.requests {
            let device = devices.get(*place).ok_or("no such device")?;
            let mut consumed = json!({});
            for (name, capacity) in device["capacity"].as_object().unwrap() {
                let default = &capacity["requestPolicy"]["default"];
                let value = asked.get(name).unwrap_or(default);
                let used: u64 = all.used(device["name"].as_str().unwrap(), name)
                    + results
                        .iter()
                        .map(|of: &Value| number(&of["consumedCapacity"][name]))
                        .sum::<u64>();
                if used + number(value) > number(&capacity["value"]) && !wanted.beyond {
                    return Err(format!("{name}: {value} do not fit beside {used}"));
                }
                consumed[name] = value.clone();
            }
            all.shares += 1;
            results.push(json!({
                "request": request, "driver": wanted.driver, "pool": "node1", "device": device["name"],
                "shareID": format!("{:08x}-0000-4000-8000-000000000000", all.shares),
                "consumedCapacity": consumed,
            }));
        }
        all.shares += 1;
        let uid = format!("{:08x}-1111-4111-8111-111111111111", all.shares);
        let pods = wanted
            .pods
            .iter()
            .map(|pod| json!({"resource": "pods", "name": pod, "uid": format!("u-{pod}")}));
        let claim = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"namespace": "team", "name": wanted.name, "uid": uid},
            "spec": {"devices": {"requests": wanted.requests.iter().map(|(request, _, asked)| {
                json!({"name": request, "exactly": {"deviceClassName": "openmps", "capacity": {"requests": asked}}})
            }).collect::<Vec<_>>()}},
            "status": {"allocation": {"devices": {"results": results, "config": wanted.config}},
                "reservedFor": pods.collect::<Vec<_>>()},
        });
        all.claims.insert(("team".to_owned(), wanted.name.clone()), claim.clone());
        Ok(claim)
    }

    /// Makes a pod whose containers name claims.
    pub fn pod(&self, name: &str, containers: &[(&str, &[&str])]) {
        let claims: Vec<&str> =
            containers.iter().flat_map(|(_, claims)| *claims).copied().collect();
        let of_pod = claims.iter().map(|of| json!({"name": of, "resourceClaimName": of}));
        let container = |(name, claims): &(&str, &[&str])| {
            let claims: Vec<Value> = claims.iter().map(|of| json!({"name": of})).collect();
            json!({"name": name, "image": "i", "resources": {"claims": claims}})
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "team", "name": name},
            "spec": {"resourceClaims": of_pod.collect::<Vec<_>>(),
                "containers": containers.iter().map(container).collect::<Vec<_>>()}});
        self.objects.lock().unwrap().pods.insert(("team".to_owned(), name.to_owned()), pod);
    }

    /// Frees a claim.
    pub fn delete(&self, name: &str) {
        self.objects.lock().unwrap().claims.remove(&("team".to_owned(), name.to_owned()));
    }

    /// Gives a claim an annotation.
    pub fn annotate(&self, name: &str, key: &str, value: &str) {
        let mut all = self.objects.lock().unwrap();
        let claim = all.claims.get_mut(&("team".to_owned(), name.to_owned())).unwrap();
        claim["metadata"]["annotations"] = json!({key: value});
    }

    pub fn claim(&self, name: &str) -> Value {
        self.objects.lock().unwrap().claims[&("team".to_owned(), name.to_owned())].clone()
    }
}

impl Objects {
    fn used(&self, device: &str, capacity: &str) -> u64 {
        let results = self.claims.values().flat_map(|claim| {
            claim["status"]["allocation"]["devices"]["results"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        });
        let here = results.filter(|of| of["device"] == device);
        here.map(|of| number(&of["consumedCapacity"][capacity])).sum()
    }
}

fn number(quantity: &Value) -> u64 {
    quantity.as_str().map_or(0, |text| openmps_k8s::quantity::parse(text).unwrap_or(0))
}

/// A claim to be made.
pub struct Wanted {
    pub name: String,
    pub driver: String,
    /// Request, number of the device, capacities.
    pub requests: Vec<(String, usize, Value)>,
    pub config: Value,
    pub pods: Vec<String>,
    /// Allocate more than there is, as no scheduler does.
    pub beyond: bool,
}

impl Wanted {
    /// A share of the first GPU.
    pub fn share(name: &str, sms: u32, memory: &str) -> Wanted {
        let asked = json!({"sms": sms.to_string(), "memory": memory});
        Wanted {
            name: name.to_owned(),
            driver: openmps_k8s::driver::DRIVER_NAME.to_owned(),
            requests: vec![("gpu".to_owned(), 0, asked)],
            config: json!([]),
            pods: vec![format!("pod-{name}")],
            beyond: false,
        }
    }

    /// With opaque parameters.
    pub fn with(mut self, source: &str, parameters: Value) -> Wanted {
        let opaque = json!({"driver": self.driver, "parameters": parameters});
        self.config.as_array_mut().unwrap().push(json!({"source": source, "opaque": opaque}));
        self
    }
}

/// A ShareConfig with these fields.
pub fn share_config(mut fields: Value) -> Value {
    fields["apiVersion"] = json!("gpu.openmps.io/v1alpha1");
    fields["kind"] = json!("ShareConfig");
    fields
}
