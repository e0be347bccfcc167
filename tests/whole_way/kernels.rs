//! Whole kernels on the software GPU give what the same algorithms give in C.

use tests::Scene;

#[test]
fn kernels_give_what_c_gives() {
    let scene = Scene::new();
    let names = scene.openmps(&["bench", "kernels", "--check", "--list"]).expect_success();
    let report = scene.openmps(&["bench", "kernels", "--check"]).expect_success();
    let expected = format!("{} kernels gave", names.stdout.lines().count());
    assert!(report.stdout.starts_with(&expected), "{}", report.stdout);
}
