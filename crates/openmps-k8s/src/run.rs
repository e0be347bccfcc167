//! The program: its options, sockets and tasks.

use crate::agent::{Agent, log};
use crate::api::Cluster;
use crate::daemon::ShareDaemon;
use crate::driver::Driver;
use crate::health::TaintEffect;
use crate::kubelet::{Plugin, Probe, Registration, Socket};
use crate::prepare::{Folders, Preparer};
use crate::proto::{dra_v1, dra_v1beta1, grpc_health, health_v1, health_v1alpha1, registration};
use anyhow::{Context, Result};
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Server;

/// How the agent runs on a node.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// The node's name
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// UID of this agent's pod: with it two agents may run side by side while one is replaced
    #[arg(long, value_name = "UID", default_value = "")]
    pub pod_uid: String,
    /// A kubeconfig file; without it the service account of the pod is used
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// The DRA driver's name; it cannot change while claims exist
    #[arg(long, value_name = "NAME", default_value = crate::driver::DRIVER_NAME)]
    pub driver_name: String,
    /// The control daemon's directory, the same path here and on the host
    #[arg(long, value_name = "DIR", default_value = "/run/openmps")]
    pub pipe_directory: PathBuf,
    /// The named server that has the shares; it is made if it is not there
    #[arg(long, value_name = "NAME", default_value = "shared")]
    pub server: String,
    /// The kubelet's directory
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub kubelet_directory: PathBuf,
    /// Where the container runtime looks for CDI specs
    #[arg(long, value_name = "DIR", default_value = "/var/run/cdi")]
    pub cdi_directory: PathBuf,
    /// The directory with libcuda.so.1 on the host
    #[arg(long, value_name = "DIR", default_value = "/opt/openmps/lib/openmps")]
    pub libraries: PathBuf,
    /// Where metrics are served, as ADDRESS:PORT; without it they are not
    #[arg(long, value_name = "ADDRESS")]
    pub metrics_address: Option<SocketAddr>,
    /// Where probes of kind grpc are answered, as ADDRESS:PORT; without it they are not
    #[arg(long, value_name = "ADDRESS")]
    pub health_address: Option<SocketAddr>,
    /// Seconds between two looks at the daemon and at claims' annotations
    #[arg(long, value_name = "S", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub interval: u64,
    /// What the taint of a GPU does whose server does not recover from a fault
    #[arg(long, value_name = "EFFECT", default_value = "NoSchedule")]
    pub fault_effect: TaintEffect,
    /// Log each call of the kubelet and its answer, as a line of JSON
    #[arg(long)]
    pub log_calls: bool,
}

async fn metrics(State(agent): State<Arc<Agent>>) -> ([(&'static str, &'static str); 1], String) {
    let text = tokio::task::spawn_blocking(move || agent.page()).await.unwrap_or_default();
    ([("content-type", "text/plain; version=0.0.4")], text)
}

/// Runs the agent until it is told to end.
///
/// # Errors
/// It could not start, or a socket failed.
pub async fn run(options: Options) -> Result<()> {
    let driver = Driver::new(&options.driver_name).map_err(anyhow::Error::msg)?;
    let plugins = options.kubelet_directory.join("plugins").join(driver.name());
    let registry = options.kubelet_directory.join("plugins_registry");
    let plugin_path =
        driver.plugin_socket(&plugins, &options.pod_uid).map_err(anyhow::Error::msg)?;
    let registration_path =
        driver.registration_socket(&registry, &options.pod_uid).map_err(anyhow::Error::msg)?;
    let daemon = ShareDaemon::new(&options.pipe_directory, &options.server);
    let folders = Folders {
        plugin: plugins.clone(),
        cdi: options.cdi_directory.clone(),
        libraries: options.libraries.clone(),
    };
    let cluster =
        Cluster::connect(options.kubeconfig.as_deref(), driver.clone(), &options.node).await?;
    let preparer = Preparer::open(driver.clone(), daemon, folders)?;
    let agent = Agent::new(preparer, cluster, options.fault_effect, options.log_calls);

    let mut tasks = tokio::task::JoinSet::new();
    let mut plugin = Socket::bind(&plugin_path)
        .with_context(|| format!("the plugin's socket {}", plugin_path.display()))?;
    let incoming = plugin.incoming().context("a socket serves once")?;
    let service = Plugin(Arc::clone(&agent));
    let server = Server::builder()
        .add_service(dra_v1::dra_plugin_server::DraPluginServer::new(service.clone()))
        .add_service(dra_v1beta1::dra_plugin_server::DraPluginServer::new(service.clone()))
        .add_service(health_v1::dra_resource_health_server::DraResourceHealthServer::new(
            service.clone(),
        ))
        .add_service(health_v1alpha1::dra_resource_health_server::DraResourceHealthServer::new(
            service,
        ));
    tasks.spawn(async move { server.serve_with_incoming(incoming).await.context("the plugin") });
    // The kubelet calls the plugin's socket as soon as it has found this one.
    let mut registrar = Socket::bind(&registration_path)
        .with_context(|| format!("the registration socket {}", registration_path.display()))?;
    let incoming = registrar.incoming().context("a socket serves once")?;
    let registration = registration::registration_server::RegistrationServer::new(Registration {
        name: driver.name().to_owned(),
        endpoint: plugin_path.clone(),
        agent: Arc::clone(&agent),
    });
    let server = Server::builder().add_service(registration);
    tasks.spawn(async move { server.serve_with_incoming(incoming).await.context("registration") });
    if let Some(address) = options.health_address {
        let probe = grpc_health::health_server::HealthServer::new(Probe(plugin_path));
        let server = Server::builder().add_service(probe);
        tasks.spawn(async move { server.serve(address).await.context("the health service") });
    }
    if let Some(address) = options.metrics_address {
        let listener = tokio::net::TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("metrics at {address}"))?;
        let router = Router::new().route("/metrics", get(metrics)).with_state(Arc::clone(&agent));
        tasks.spawn(async move { axum::serve(listener, router).await.context("metrics") });
    }
    let interval = Duration::from_secs(options.interval);
    tasks.spawn(async move {
        agent.watch(interval).await;
        Ok(())
    });
    log(format_args!("driver {} on node {}", driver.name(), options.node));
    let mut term = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = term.recv() => log("told to end"),
        _ = tokio::signal::ctrl_c() => log("told to end"),
        ended = tasks.join_next() => match ended {
            Some(Ok(result)) => result?,
            Some(Err(error)) => anyhow::bail!("a task of the agent failed: {error}"),
            None => {}
        },
    }
    Ok(())
}
