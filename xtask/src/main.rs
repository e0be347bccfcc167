//! Development tasks: `cargo xtask --help`.

mod generate;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks of openmps")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Write the generated source files from the tables in xtask/data
    Generate,
}

/// The repository's root.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Generate => {
            let root = root();
            for file in generate::all(&root)? {
                let path = root.join(file.path);
                std::fs::write(&path, file.text)
                    .with_context(|| format!("writing {}", path.display()))?;
                println!("wrote {}", file.path);
            }
            Ok(())
        }
    }
}
