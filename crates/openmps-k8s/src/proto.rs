//! Generated code of the kubelet's protocols.
#![allow(missing_docs, clippy::all, clippy::undocumented_unsafe_blocks)]

/// DRAPlugin, version v1.
pub mod dra_v1 {
    tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
}

/// DRAPlugin, version v1beta1.
pub mod dra_v1beta1 {
    tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1beta1");
}

/// DRAResourceHealth, version v1.
pub mod health_v1 {
    tonic::include_proto!("v1");
}

/// DRAResourceHealth, version v1alpha1.
pub mod health_v1alpha1 {
    tonic::include_proto!("v1alpha1");
}

/// Registration of plugins.
pub mod registration {
    tonic::include_proto!("pluginregistration");
}

/// The health service of probes.
pub mod grpc_health {
    tonic::include_proto!("grpc.health.v1");
}
