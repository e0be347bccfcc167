//! Claims that a container names together: they have one directory of the daemon, since a program has one.
//!
//! Each share of a directory is on a GPU of its own, so claims of one GPU cannot be had together. A claim that another
//! pod has already keeps its directory.

use crate::share::{ClaimError, ClaimName, Namespace};
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A container, and the claims that it names, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The container.
    pub container: String,
    /// Names of claims of this driver.
    pub claims: BTreeSet<String>,
}

/// Claims of a pod that have one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Joins {
    container: String,
    /// By the claims' UIDs, in the order in which they were asked for: names and namespaces.
    members: Vec<(ClaimName, Vec<Namespace>)>,
}

/// The containers of a pod that name several of these claims.
pub fn of_pod(pod: &Pod, claims: &[ClaimName]) -> Vec<Named> {
    let value = serde_json::to_value(pod).unwrap_or_default();
    let rows = |path: &Value| path.as_array().cloned().unwrap_or_default();
    let text = |of: &Value, key: &str| of[key].as_str().map(str::to_owned);
    // A pod's own name for a claim, and the claim's.
    let own = rows(&value["spec"]["resourceClaims"]);
    let made = rows(&value["status"]["resourceClaimStatuses"]);
    let names: BTreeMap<String, String> = own
        .iter()
        .chain(&made)
        .filter_map(|of| Some((text(of, "name")?, text(of, "resourceClaimName")?)))
        .collect();
    let spec = &value["spec"];
    let containers = rows(&spec["initContainers"]).into_iter().chain(rows(&spec["containers"]));
    let named = |container: Value| {
        let of = rows(&container["resources"]["claims"]);
        let of = of.iter().filter_map(|of| names.get(&text(of, "name")?).cloned());
        let is_ours = |name: &String| claims.iter().any(|claim| claim.name == *name);
        let claims = of.filter(is_ours).collect();
        Named { container: text(&container, "name").unwrap_or_default(), claims }
    };
    containers.map(named).filter(|of| of.claims.len() > 1).collect()
}

/// The groups of claims that have a directory together: those of one container, and of two that have a claim in common.
pub fn groups(named: Vec<Named>) -> Vec<Named> {
    let mut groups: Vec<Named> = Vec::new();
    for mut of in named {
        groups.retain_mut(|group| {
            let is_apart = group.claims.is_disjoint(&of.claims);
            if !is_apart {
                of.claims.append(&mut group.claims);
            }
            is_apart
        });
        groups.push(of);
    }
    groups
}

impl Joins {
    /// Of the claims that a container names: their namespaces as they are or would be by themselves.
    pub fn new(container: &str, members: Vec<(ClaimName, Vec<Namespace>)>) -> Joins {
        Joins { container: container.to_owned(), members }
    }

    /// Whether there are several claims.
    pub fn is_several(&self) -> bool {
        self.members.len() > 1
    }

    fn refuse(&self, reason: String) -> ClaimError {
        let names: Vec<&str> = self.members.iter().map(|(of, _)| of.name.as_str()).collect();
        ClaimError::Together {
            container: self.container.clone(),
            claims: names.join(" and "),
            reason,
        }
    }

    /// Whether they can have one directory.
    ///
    /// # Errors
    /// Why not.
    pub fn check(&self) -> Result<(), ClaimError> {
        let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, namespaces) in &self.members {
            for share in namespaces.iter().flat_map(|of| &of.shares) {
                if seen.insert(&share.uuid, &name.name).is_some() {
                    return Err(self.refuse(format!(
                        "two of their shares are of GPU {}, and a directory has one share of a GPU; use one claim, or \
                         a container for each",
                        share.device
                    )));
                }
            }
        }
        Ok(())
    }

    /// Gives a claim's namespaces the directory of all.
    ///
    /// # Errors
    /// They cannot have one.
    pub fn apply(&self, name: &ClaimName, namespaces: &mut [Namespace]) -> Result<(), ClaimError> {
        self.check()?;
        let first = self.members.first().and_then(|(_, namespaces)| namespaces.first());
        let others = self.members.iter().filter(|(of, _)| of.uid != name.uid);
        let joined: Vec<String> = others
            .flat_map(|(_, namespaces)| namespaces)
            .flat_map(|of| of.shares.iter().map(|share| share.uuid.clone()))
            .collect();
        for namespace in namespaces {
            if let Some(first) = first {
                namespace.name.clone_from(&first.name);
            }
            namespace.joined.clone_from(&joined);
        }
        Ok(())
    }

    /// A claim is prepared already, with these namespaces: it has the directory of all, or one of its own that it
    /// keeps.
    ///
    /// # Errors
    /// It has one of its own.
    pub fn check_known(
        &self,
        name: &ClaimName,
        namespaces: &[Namespace],
    ) -> Result<(), ClaimError> {
        match namespaces.iter().all(|namespace| !namespace.joined.is_empty()) {
            true => Ok(()),
            false => Err(self.refuse(format!(
                "{} is prepared for another pod, with a directory of its own; use one claim with two requests",
                name.name
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::GpuShare;
    use serde_json::json;

    fn name(of: &str) -> ClaimName {
        ClaimName { namespace: "n".into(), name: of.into(), uid: format!("u-{of}") }
    }

    fn namespace(of: &str, gpu: &str) -> Vec<Namespace> {
        let share =
            GpuShare { uuid: format!("GPU-{gpu}"), device: gpu.into(), ..GpuShare::default() };
        vec![Namespace { name: of.into(), shares: vec![share], ..Namespace::default() }]
    }

    fn pod(containers: Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p"},
            "spec": {"containers": containers, "resourceClaims": [
                {"name": "x", "resourceClaimName": "a"}, {"name": "y", "resourceClaimTemplateName": "t"},
                {"name": "z", "resourceClaimName": "c"}]},
            "status": {"resourceClaimStatuses": [{"name": "y", "resourceClaimName": "p-y-1"}]},
        }))
        .unwrap()
    }

    #[test]
    fn containers_that_name_several_claims_are_found() {
        let container = |name: &str, claims: &[&str]| {
            let claims: Vec<Value> = claims.iter().map(|of| json!({"name": of})).collect();
            json!({"name": name, "resources": {"claims": claims}})
        };
        let all = [name("a"), name("p-y-1"), name("c")];
        let found = |containers: Value| of_pod(&pod(containers), &all);
        assert_eq!(found(json!([container("one", &["x"]), container("two", &["y"])])), []);
        let both = found(json!([container("one", &["x", "y"]), container("two", &["z"])]));
        assert_eq!(both.len(), 1);
        assert_eq!(both[0].claims, ["a", "p-y-1"].map(str::to_owned).into());
        // Requests of one claim are one claim, and another driver's claim is none of ours.
        assert_eq!(found(json!([container("one", &["x", "x"])])), []);
        assert_eq!(of_pod(&pod(json!([container("one", &["x", "y"])])), &all[..1]), []);
        let chain = found(json!([container("one", &["x", "y"]), container("two", &["y", "z"])]));
        assert_eq!(groups(chain)[0].claims.len(), 3);
    }

    #[test]
    fn claims_have_one_directory_if_their_gpus_differ() {
        let members = |second: &str| {
            vec![(name("a"), namespace("s1", "gpu-a")), (name("b"), namespace("s2", second))]
        };
        let joins = Joins::new("main", members("gpu-b"));
        let mut second = namespace("s2", "gpu-b");
        joins.apply(&name("b"), &mut second).unwrap();
        assert_eq!(
            (second[0].name.as_str(), &second[0].joined[..]),
            ("s1", &["GPU-gpu-a".into()][..])
        );
        joins.check_known(&name("b"), &second).unwrap();
        let own = joins.check_known(&name("b"), &namespace("s2", "gpu-b")).unwrap_err();
        assert!(own.to_string().contains("b is prepared for another pod"), "{own}");
        let same = Joins::new("main", members("gpu-a")).check().unwrap_err().to_string();
        assert!(same.starts_with("container main names the claims a and b: two of"), "{same}");
    }
}
