//! A kubelet's simulator: finds plugins by their registration sockets, prepares claims, reads CDI specs.

use openmps_k8s::proto::dra_v1::{self, dra_plugin_client::DraPluginClient};
use openmps_k8s::proto::health_v1::{self, dra_resource_health_client::DraResourceHealthClient};
use openmps_k8s::proto::registration::{self, registration_client::RegistrationClient};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// A plugin that has registered.
#[derive(Clone)]
pub struct Registered {
    pub info: registration::PluginInfo,
    channel: Channel,
}

/// What a container gets of a claim.
#[derive(Debug, Default)]
pub struct Container {
    pub environment: BTreeMap<String, String>,
    /// From the host to the container.
    pub mounts: Vec<(PathBuf, PathBuf)>,
}

impl Container {
    /// The directory on the host that a path in the container is.
    pub fn on_host(&self, inside: &str) -> PathBuf {
        let mount = self.mounts.iter().find(|(_, to)| to == Path::new(inside));
        mount.unwrap_or_else(|| panic!("{inside} in {:?}", self.mounts)).0.clone()
    }
}

/// A channel to a socket, with this authority in its requests.
async fn connect(socket: &Path, authority: &str) -> Result<Channel, String> {
    let origin = format!("http://{authority}").parse();
    let origin =
        origin.map_err(|error| format!("a server refuses authority {authority}: {error}"))?;
    let endpoint = Endpoint::from_shared(format!("unix://{}", socket.display())).unwrap();
    endpoint.origin(origin).connect().await.map_err(|error| error.to_string())
}

/// The authority that the kubelet's registration sends: the path, escaped as gRPC for Go does.
fn escaped(path: &Path) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]@".contains(&b);
    let bytes = path.to_str().unwrap().bytes();
    bytes.map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Registers with the plugin of a socket in the registry.
pub async fn register(socket: &Path) -> Result<Registered, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let channel = connect(socket, &escaped(socket)).await?;
    let mut client = RegistrationClient::new(channel);
    let info = client.get_info(registration::InfoRequest {}).await.map_err(|e| text(&e))?;
    let info = info.into_inner();
    let channel = connect(Path::new(&info.endpoint), "localhost").await?;
    let status = registration::RegistrationStatus { plugin_registered: true, error: String::new() };
    client.notify_registration_status(status).await.map_err(|e| text(&e))?;
    Ok(Registered { info, channel })
}

/// A claim as the kubelet names it.
pub fn named(claim: &Value) -> dra_v1::Claim {
    let of = |key: &str| claim["metadata"][key].as_str().unwrap_or_default().to_owned();
    dra_v1::Claim { namespace: of("namespace"), uid: of("uid"), name: of("name") }
}

impl Registered {
    /// Prepares a claim; its devices, or the error.
    pub async fn prepare(&self, claim: &Value) -> Result<Vec<dra_v1::Device>, String> {
        let claim = named(claim);
        let request = dra_v1::NodePrepareResourcesRequest { claims: vec![claim.clone()] };
        let mut client = DraPluginClient::new(self.channel.clone());
        let answer = client.node_prepare_resources(request).await.map_err(|e| e.to_string())?;
        let mut answer = answer.into_inner();
        let of_claim =
            answer.claims.remove(&claim.uid).ok_or("the claim is missing in the answer")?;
        match of_claim.error.is_empty() {
            true => Ok(of_claim.devices),
            false => Err(of_claim.error),
        }
    }

    /// Prepares all claims of a pod in one call; the devices of each, or the first error.
    pub async fn prepare_all(&self, claims: &[Value]) -> Result<Vec<dra_v1::Device>, String> {
        let claims: Vec<dra_v1::Claim> = claims.iter().map(named).collect();
        let request = dra_v1::NodePrepareResourcesRequest { claims: claims.clone() };
        let mut client = DraPluginClient::new(self.channel.clone());
        let answer = client.node_prepare_resources(request).await.map_err(|e| e.to_string())?;
        let mut answer = answer.into_inner();
        let mut devices = Vec::new();
        for claim in claims {
            let of_claim = answer.claims.remove(&claim.uid).ok_or("a claim is missing")?;
            if !of_claim.error.is_empty() {
                return Err(of_claim.error);
            }
            devices.extend(of_claim.devices);
        }
        Ok(devices)
    }

    /// Unprepares a claim.
    pub async fn unprepare(&self, claim: &Value) -> Result<(), String> {
        let claim = named(claim);
        let request = dra_v1::NodeUnprepareResourcesRequest { claims: vec![claim.clone()] };
        let mut client = DraPluginClient::new(self.channel.clone());
        let answer = client.node_unprepare_resources(request).await.map_err(|e| e.to_string())?;
        let mut answer = answer.into_inner();
        let of_claim =
            answer.claims.remove(&claim.uid).ok_or("the claim is missing in the answer")?;
        match of_claim.error.is_empty() {
            true => Ok(()),
            false => Err(of_claim.error),
        }
    }

    /// The next news of devices that a condition holds for.
    pub async fn health(
        &self,
        wanted: impl Fn(&health_v1::DeviceHealth) -> bool,
    ) -> health_v1::DeviceHealth {
        let mut client = DraResourceHealthClient::new(self.channel.clone());
        let request = health_v1::NodeWatchResourcesRequest {};
        let mut stream = client.node_watch_resources(request).await.unwrap().into_inner();
        let look = async {
            loop {
                let news = stream.message().await.unwrap().expect("the stream stays");
                if let Some(device) = news.devices.into_iter().find(&wanted) {
                    return device;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), look).await.expect("there are news")
    }
}

/// What a container gets that names these devices, by the specs of a directory.
pub fn container(specs: &Path, devices: &[dra_v1::Device]) -> Container {
    let mut container = Container::default();
    let all: Vec<Value> = std::fs::read_dir(specs)
        .unwrap()
        .map(|entry| {
            serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap()
        })
        .collect();
    let mut edit = |edits: &Value| {
        for text in edits["env"].as_array().into_iter().flatten() {
            let (name, value) = text.as_str().unwrap().split_once('=').unwrap();
            container.environment.insert(name.to_owned(), value.to_owned());
        }
        for mount in edits["mounts"].as_array().into_iter().flatten() {
            let path = |key: &str| PathBuf::from(mount[key].as_str().unwrap());
            let pair = (path("hostPath"), path("containerPath"));
            container.mounts.retain(|(_, to)| *to != pair.1);
            container.mounts.push(pair);
        }
    };
    for id in devices.iter().flat_map(|device| &device.cdi_device_ids) {
        let (kind, name) = id.split_once('=').unwrap();
        let spec = all.iter().filter(|spec| spec["kind"] == kind);
        let found = spec.flat_map(|spec| {
            spec["devices"].as_array().into_iter().flatten().map(move |device| (spec, device))
        });
        let (spec, device) = found
            .into_iter()
            .find(|(_, device)| device["name"] == name)
            .unwrap_or_else(|| panic!("unresolvable CDI device {id}"));
        edit(&spec["containerEdits"]);
        edit(&device["containerEdits"]);
    }
    container
}
