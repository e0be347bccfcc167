//! Book of the documents: mdBook renders `docs/` into `target/book`, where a link to a missing page fails the build.

use crate::dist::run;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is fetched where no mdBook is installed.
const VERSION: &str = "=0.5.4";

/// Builds the book.
pub(crate) fn build(root: &Path) -> Result<()> {
    let program = mdbook(root)?;
    run(Command::new(program).current_dir(root).args(["build", "docs"]))?;
    println!("{}", root.join("target/book/index.html").display());
    Ok(())
}

/// The mdBook of the search path, or that of the folder of third-party programs, which is fetched if need be.
fn mdbook(root: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("mdbook"));
    if let Some(program) = installed.into_iter().find(|program| program.is_file()) {
        return Ok(program);
    }
    let folder = root.join(".third-party/mdbook");
    let program = folder.join("bin/mdbook");
    if !program.is_file() {
        let mut install = Command::new(env!("CARGO"));
        install.args([
            "install",
            "mdbook",
            "--version",
            VERSION,
            "--locked",
            "--no-default-features",
        ]);
        run(install.arg("--root").arg(&folder))?;
    }
    Ok(program)
}
