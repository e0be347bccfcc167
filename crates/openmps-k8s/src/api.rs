//! Calls of the Kubernetes API: claims, the node's slice, events.

use crate::checkpoint::PreparedClaim;
use crate::driver::Driver;
use crate::gpu::slice_name;
use crate::prepare::shares_of;
use crate::share::ClaimName;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use std::path::Path;

/// How long a call may take.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// The API server, for one node's driver.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    driver: Driver,
    node: String,
}

impl Cluster {
    /// By the service account of the pod, or a kubeconfig file. No call is made yet.
    ///
    /// # Errors
    /// Why there is no configuration.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        driver: Driver,
        node: &str,
    ) -> anyhow::Result<Cluster> {
        let mut config = match kubeconfig {
            Some(path) => {
                let file = kube::config::Kubeconfig::read_from(path)?;
                Config::from_custom_kubeconfig(file, &Default::default()).await?
            }
            None => Config::incluster().map_err(|error| {
                anyhow::anyhow!("{error}: outside of a pod give --kubeconfig FILE")
            })?,
        };
        config.connect_timeout = Some(PATIENCE);
        config.read_timeout = Some(PATIENCE);
        config.write_timeout = Some(PATIENCE);
        Ok(Cluster { client: Client::try_from(config)?, driver, node: node.to_owned() })
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    fn claims(&self, namespace: &str) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A claim; `None` if there is none of that name.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn claim(&self, name: &ClaimName) -> kube::Result<Option<ResourceClaim>> {
        self.claims(&name.namespace).get_opt(&name.name).await
    }

    /// A pod; `None` if there is none of that name.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn pod(&self, namespace: &str, name: &str) -> kube::Result<Option<Pod>> {
        Api::<Pod>::namespaced(self.client.clone(), namespace).get_opt(name).await
    }

    /// The node's UID, by which its slice goes with it.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn node_uid(&self) -> kube::Result<Option<String>> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        Ok(nodes.get_metadata_opt(&self.node).await?.and_then(|node| node.metadata.uid))
    }

    fn slices(&self) -> Api<ResourceSlice> {
        Api::all(self.client.clone())
    }

    /// The node's slice; `None` if there is none.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn slice(&self) -> kube::Result<Option<ResourceSlice>> {
        self.slices().get_opt(&slice_name(&self.driver, &self.node)).await
    }

    /// Publishes the node's slice.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply_slice(&self, slice: &Value) -> kube::Result<()> {
        let name = slice_name(&self.driver, &self.node);
        let parameters = PatchParams::apply(self.driver.name()).force();
        self.slices().patch(&name, &parameters, &Patch::Apply(slice)).await.map(drop)
    }

    /// Takes the node's slice away; one that is not there is no error.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn delete_slice(&self) -> kube::Result<()> {
        let name = slice_name(&self.driver, &self.node);
        match self.slices().delete(&name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            result => result.map(drop),
        }
    }

    /// Says in a claim's status what is served.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn apply_status(&self, record: &PreparedClaim, server: &str) -> kube::Result<()> {
        let now = jiff::Timestamp::now().to_string();
        let device = |(namespace, share): (&crate::share::Namespace, &crate::share::GpuShare)| {
            let mut device = json!({
                "driver": self.driver.name(),
                "pool": share.pool,
                "device": share.device,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Prepared",
                    "message": "", "lastTransitionTime": now}],
                "data": {
                    "server": server,
                    "namespace": namespace.name,
                    "gpu": share.uuid,
                    "sms": share.sms,
                    "limitSms": share.cap_sms(),
                    "memoryMiB": share.memory_bytes / crate::gpu::MIB,
                    "clients": share.clients,
                    "class": share.class().word(),
                },
            });
            if let Some(id) = &share.share_id {
                device["shareID"] = json!(id);
            }
            device
        };
        let status = json!({
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": record.claim.name, "namespace": record.claim.namespace, "uid": record.claim.uid},
            "status": {"devices": shares_of(record).map(device).collect::<Vec<_>>()},
        });
        let parameters = PatchParams::apply(self.driver.name()).force();
        let claims = self.claims(&record.claim.namespace);
        claims.patch_status(&record.claim.name, &parameters, &Patch::Apply(&status)).await.map(drop)
    }

    /// Says something about a claim in an event, once for each text.
    ///
    /// # Errors
    /// What the API server says.
    pub async fn event(&self, claim: &ClaimName, reason: &str, message: &str) -> kube::Result<()> {
        let now = jiff::Timestamp::now().to_string();
        let kind = if reason == "Prepared" || reason == "Resized" { "Normal" } else { "Warning" };
        let name = format!("{}.{:016x}", claim.name, hash(&[&claim.uid, reason, message]));
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": claim.namespace},
            "involvedObject": {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
                "namespace": claim.namespace, "name": claim.name, "uid": claim.uid},
            "reason": reason,
            "message": message.chars().take(1000).collect::<String>(),
            "type": kind,
            "source": {"component": self.driver.name(), "host": self.node},
            "reportingComponent": self.driver.name(),
            "reportingInstance": self.node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }))
        .map_err(kube::Error::SerdeError)?;
        let events: Api<Event> = Api::namespaced(self.client.clone(), &claim.namespace);
        match events.create(&PostParams::default(), &event).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(drop),
        }
    }
}

/// FNV-1a of several texts: names an event.
fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
