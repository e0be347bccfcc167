//! The sockets and services that the kubelet calls: registration, DRAPlugin, DRAResourceHealth; and the health
//! service of probes.

use crate::agent::Agent;
use crate::prepare::PreparedDevice;
use crate::proto::{dra_v1, dra_v1beta1, grpc_health, health_v1, health_v1alpha1, registration};
use crate::share::ClaimName;
use registration::{InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::UnixListener;
use tokio_stream::wrappers::{UnixListenerStream, WatchStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status};

/// What the agent supports, as the kubelet names it.
pub const SUPPORTED: &[&str] =
    &["v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"];

/// How long the kubelet may be without news of a device's health, s.
const HEALTH_TIMEOUT_S: i64 = 60;

/// A socket, with what a killed agent left there removed; its file goes when this does.
pub struct Socket {
    path: PathBuf,
    listener: Option<UnixListener>,
}

impl Socket {
    /// Listens.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn bind(path: &Path) -> io::Result<Socket> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        Ok(Socket { path: path.to_owned(), listener: Some(listener) })
    }

    /// What comes, once.
    pub fn incoming(&mut self) -> Option<UnixListenerStream> {
        self.listener.take().map(UnixListenerStream::new)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Tells the kubelet what this plugin is.
pub struct Registration {
    /// The driver's name.
    pub name: String,
    /// The plugin's socket.
    pub endpoint: PathBuf,
    /// Where it is noted whether the kubelet has registered it.
    pub agent: Arc<Agent>,
}

#[tonic::async_trait]
impl registration::registration_server::Registration for Registration {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        let info = PluginInfo {
            r#type: "DRAPlugin".to_owned(),
            name: self.name.clone(),
            endpoint: self.endpoint.display().to_string(),
            supported_versions: SUPPORTED.iter().map(|name| (*name).to_owned()).collect(),
        };
        self.agent.called("GetInfo", &(), &info);
        Ok(Response::new(info))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        self.agent.registered(status.plugin_registered, &status.error);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Prepares and unprepares claims, and says how devices are.
#[derive(Clone)]
pub struct Plugin(pub Arc<Agent>);

/// The services of one version of DRAPlugin: the two differ in the id of a share only.
macro_rules! plugin {
    ($version:ident, $device:expr) => {
        #[tonic::async_trait]
        impl $version::dra_plugin_server::DraPlugin for Plugin {
            async fn node_prepare_resources(
                &self,
                request: Request<$version::NodePrepareResourcesRequest>,
            ) -> Result<Response<$version::NodePrepareResourcesResponse>, Status> {
                let mut response = $version::NodePrepareResourcesResponse::default();
                let request = request.into_inner();
                let name = |claim: $version::Claim| {
                    let $version::Claim { namespace, uid, name } = claim;
                    ClaimName { namespace, name, uid }
                };
                let names: Vec<ClaimName> = request.claims.iter().cloned().map(name).collect();
                for (name, prepared) in self.0.prepare_all(names).await {
                    let answer = match prepared {
                        Ok(devices) => $version::NodePrepareResourceResponse {
                            devices: devices.into_iter().map($device).collect(),
                            error: String::new(),
                        },
                        Err(error) => {
                            $version::NodePrepareResourceResponse { devices: Vec::new(), error }
                        }
                    };
                    response.claims.insert(name.uid, answer);
                }
                // Probes ask for nothing.
                if !request.claims.is_empty() {
                    self.0.called("NodePrepareResources", &request, &response);
                }
                Ok(Response::new(response))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<$version::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<$version::NodeUnprepareResourcesResponse>, Status> {
                let mut response = $version::NodeUnprepareResourcesResponse::default();
                let request = request.into_inner();
                for claim in request.claims.clone() {
                    let $version::Claim { namespace, uid, name } = claim;
                    let name = ClaimName { namespace, name, uid };
                    let error = self.0.unprepare(&name).await.err().unwrap_or_default();
                    let answer = $version::NodeUnprepareResourceResponse { error };
                    response.claims.insert(name.uid, answer);
                }
                self.0.called("NodeUnprepareResources", &request, &response);
                Ok(Response::new(response))
            }
        }
    };
}

plugin!(dra_v1, |of: PreparedDevice| dra_v1::Device {
    request_names: vec![of.request],
    pool_name: of.pool,
    device_name: of.device,
    cdi_device_ids: vec![of.cdi_device],
    share_id: of.share_id,
});
plugin!(dra_v1beta1, |of: PreparedDevice| dra_v1beta1::Device {
    request_names: vec![of.request],
    pool_name: of.pool,
    device_name: of.device,
    cdi_device_ids: vec![of.cdi_device],
});

/// The health stream of one version.
macro_rules! health {
    ($version:ident) => {
        #[tonic::async_trait]
        impl $version::dra_resource_health_server::DraResourceHealth for Plugin {
            type NodeWatchResourcesStream = Pin<
                Box<dyn Stream<Item = Result<$version::NodeWatchResourcesResponse, Status>> + Send>,
            >;

            async fn node_watch_resources(
                &self,
                _: Request<$version::NodeWatchResourcesRequest>,
            ) -> Result<Response<Self::NodeWatchResourcesStream>, Status> {
                use $version::{DeviceHealth, DeviceIdentifier, HealthStatus};
                let pool = self.0.pool().to_owned();
                let all = WatchStream::new(self.0.health()).map(move |states| {
                    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                    let now = now.unwrap_or_default().as_secs().cast_signed();
                    let device = |state: &crate::agent::DeviceState| DeviceHealth {
                        device: Some(DeviceIdentifier {
                            pool_name: pool.clone(),
                            device_name: state.gpu.name.clone(),
                        }),
                        health: match state.health.is_healthy() {
                            true => HealthStatus::Healthy.into(),
                            false => HealthStatus::Unhealthy.into(),
                        },
                        last_updated_time: now,
                        health_check_timeout_seconds: HEALTH_TIMEOUT_S,
                        message: state.health.message.clone(),
                    };
                    let devices = states.iter().map(device).collect();
                    Ok($version::NodeWatchResourcesResponse { devices })
                });
                Ok(Response::new(Box::pin(all)))
            }
        }
    };
}

health!(health_v1);
health!(health_v1alpha1);

/// Answers probes: it serves while its own plugin socket does.
pub struct Probe(pub PathBuf);

/// How long the plugin may take for an empty request.
const PROBE_PATIENCE: Duration = Duration::from_secs(5);

#[tonic::async_trait]
impl grpc_health::health_server::Health for Probe {
    async fn check(
        &self,
        _: Request<grpc_health::HealthCheckRequest>,
    ) -> Result<Response<grpc_health::HealthCheckResponse>, Status> {
        use grpc_health::health_check_response::ServingStatus;
        let asked = tokio::time::timeout(PROBE_PATIENCE, ask(&self.0)).await;
        let status = match asked {
            Ok(Ok(())) => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        };
        Ok(Response::new(grpc_health::HealthCheckResponse { status: status.into() }))
    }
}

async fn ask(socket: &Path) -> anyhow::Result<()> {
    let channel = connect(socket).await?;
    let mut client = dra_v1::dra_plugin_client::DraPluginClient::new(channel);
    client.node_prepare_resources(dra_v1::NodePrepareResourcesRequest::default()).await?;
    Ok(())
}

async fn connect(socket: &Path) -> Result<tonic::transport::Channel, tonic::transport::Error> {
    let uri = format!("unix://{}", socket.display());
    tonic::transport::Endpoint::from_shared(uri)?.connect().await
}
