//! Code of the kubelet's protocols from `proto/`, without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const FILES: &[&str] = &[
        "dra_v1.proto",
        "dra_v1beta1.proto",
        "health_v1.proto",
        "health_v1alpha1.proto",
        "registration.proto",
        "grpc_health.proto",
    ];
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    // Calls are logged as JSON.
    tonic_prost_build::configure()
        .type_attribute(".", "#[derive(serde::Serialize)]")
        .compile_fds(files)?;
    Ok(())
}
