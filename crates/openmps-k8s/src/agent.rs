//! The agent: looks at the daemon, publishes the node's slice, does what the kubelet asks for.

use crate::api::Cluster;
use crate::gpu::{self, Gpu};
use crate::health::{Health, TaintEffect, Watch};
use crate::joined::{self, Joins, Named};
use crate::metrics::{Counted, Counts, page};
use crate::prepare::{PrepareError, PreparedDevice, Preparer};
use crate::share::{self, ClaimName, Resize};
use control::report::Report;
use locks::{Mutex, MutexGuard};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Looks at the daemon between two repairs.
const LOOKS_A_REPAIR: u32 = 12;
/// Looks in a row that find a claim gone from the API server before its share goes.
const GONE_LOOKS_MAX: u32 = 2;

/// A GPU and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceState {
    /// The GPU.
    pub gpu: Gpu,
    /// How it is.
    pub health: Health,
}

/// What was seen last.
#[derive(Default)]
struct View {
    report: Option<Report>,
    states: Vec<DeviceState>,
    watches: HashMap<String, Watch>,
    /// Texts of annotations that were applied, by the claim's UID.
    applied: HashMap<String, String>,
    /// Claims that the API server did not know, and how often.
    gone: HashMap<String, u32>,
}

/// The agent of a node.
pub struct Agent {
    preparer: Preparer,
    cluster: Cluster,
    effect: TaintEffect,
    logs_calls: bool,
    view: Mutex<View>,
    health: watch::Sender<Vec<DeviceState>>,
    counts: Counts,
}

/// A line of the log, with its time.
pub fn log(text: impl std::fmt::Display) {
    eprintln!("{} {text}", jiff::Timestamp::now());
}

/// Runs what may block beside the threads of the runtime.
async fn blocking<T: Send + 'static>(
    agent: &Arc<Agent>,
    work: impl FnOnce(&Agent) -> T + Send + 'static,
) -> Result<T, String> {
    let agent = Arc::clone(agent);
    tokio::task::spawn_blocking(move || work(&agent)).await.map_err(|error| error.to_string())
}

impl Agent {
    /// An agent that has not looked at anything yet.
    pub fn new(
        preparer: Preparer,
        cluster: Cluster,
        effect: TaintEffect,
        logs_calls: bool,
    ) -> Arc<Agent> {
        let (health, _) = watch::channel(Vec::new());
        let (view, counts) = (Mutex::default(), Counts::default());
        Arc::new(Agent { preparer, cluster, effect, logs_calls, view, health, counts })
    }

    fn view(&self) -> MutexGuard<'_, View> {
        self.view.lock()
    }

    /// The pool of the node's devices.
    pub fn pool(&self) -> &str {
        self.cluster.node()
    }

    /// How devices are, from now on.
    pub fn health(&self) -> watch::Receiver<Vec<DeviceState>> {
        self.health.subscribe()
    }

    /// Logs a call of the kubelet, if that is wanted.
    pub fn called(&self, call: &str, request: &impl Serialize, answer: &impl Serialize) {
        if self.logs_calls {
            log(json!({"call": call, "request": request, "answer": answer}));
        }
    }

    /// The kubelet has answered the registration.
    pub fn registered(&self, registered: bool, error: &str) {
        match registered {
            true => log("the kubelet has registered the driver"),
            false => log(format_args!("the kubelet refuses the driver: {error}")),
        }
    }

    /// Prepares the claims of a pod; what containers get of each, or why not, in words for the pod's events.
    pub async fn prepare_all(
        self: &Arc<Self>,
        names: Vec<ClaimName>,
    ) -> Vec<(ClaimName, Result<Vec<PreparedDevice>, String>)> {
        let joins = match names.len() {
            0 | 1 => Ok(Vec::new()),
            _ => self.joins(&names).await,
        };
        let mut answers = Vec::with_capacity(names.len());
        for name in names {
            let joins = match &joins {
                Ok(all) => all.iter().find(|(claims, _)| claims.contains(&name.name)),
                Err(reason) => {
                    let refused = Err((reason.clone(), false));
                    let answer = self.answered(&name, refused, Instant::now());
                    answers.push((name, answer));
                    continue;
                }
            };
            let began = Instant::now();
            let prepared = self.try_prepare(&name, joins.map(|(_, joins)| joins.clone())).await;
            let answer = self.answered(&name, prepared, began);
            answers.push((name, answer));
        }
        answers
    }

    /// The claims that containers of a pod name together, each group by its names.
    async fn joins(
        self: &Arc<Self>,
        names: &[ClaimName],
    ) -> Result<Vec<(BTreeSet<String>, Joins)>, String> {
        let mut claims = Vec::new();
        for name in names {
            let claim = self.cluster.claim(name).await;
            let claim = claim.map_err(|error| format!("reading the claim: {error}"))?;
            // What is wrong with one that is gone, its own answer says.
            claims.extend(claim.map(|claim| (name.clone(), claim)));
        }
        // The kubelet prepares a pod's claims: the pod is one that all of them are reserved for.
        let reserved = claims.iter().map(|(_, claim)| share::pods_of(claim));
        let common = reserved.reduce(|mut all, of| {
            all.retain(|pod| of.contains(pod));
            all
        });
        let mut named = Vec::new();
        for pod in common.unwrap_or_default() {
            let pod = self.cluster.pod(&names[0].namespace, &pod).await;
            let pod = pod.map_err(|error| format!("reading the pod: {error}"))?;
            named.extend(pod.iter().flat_map(|pod| joined::of_pod(pod, names)));
        }
        let gpus = self.gpus().map_err(|error| error.to_string())?;
        let joins = |group: Named| {
            let members = claims.iter().filter(|(name, _)| group.claims.contains(&name.name));
            let of = |(name, claim): &(ClaimName, _)| {
                let namespaces = share::of_claim(self.preparer.driver(), name, claim, &gpus);
                Some((name.clone(), namespaces.ok()?))
            };
            let joins = Joins::new(&group.container, members.filter_map(of).collect());
            (group.claims, joins)
        };
        let all = joined::groups(named).into_iter().map(joins);
        // One whose other claims are wrong is alone.
        Ok(all.filter(|(_, joins)| joins.is_several()).collect())
    }

    /// Counts and logs what became of a claim.
    fn answered(
        self: &Arc<Self>,
        name: &ClaimName,
        prepared: Result<(Vec<PreparedDevice>, bool), (String, bool)>,
        began: Instant,
    ) -> Result<Vec<PreparedDevice>, String> {
        match prepared {
            Ok((devices, is_new)) => {
                self.counts.prepared(began.elapsed());
                if is_new {
                    self.tell_status(name.clone());
                }
                Ok(devices)
            }
            Err((reason, is_refusal)) => {
                log(format_args!("claim {name}: {reason}"));
                if is_refusal {
                    self.counts.add(Counted::Refused, 1);
                    self.tell(name.clone(), "Refused", reason.clone());
                } else {
                    self.counts.add(Counted::Failed, 1);
                }
                Err(reason)
            }
        }
    }

    /// The devices, and whether the claim was not prepared before; or why not, and whether that is final.
    async fn try_prepare(
        self: &Arc<Self>,
        name: &ClaimName,
        joins: Option<Joins>,
    ) -> Result<(Vec<PreparedDevice>, bool), (String, bool)> {
        let other = |error: String| (error, false);
        let failed = |error: PrepareError| {
            let is_refusal = matches!(error, PrepareError::Claim(_));
            (error.to_string(), is_refusal)
        };
        let uid = name.uid.clone();
        let known = blocking(self, move |agent| agent.preparer.known(&uid)).await.map_err(other)?;
        let known = known.map_err(failed)?;
        let claim = match &known {
            Some(_) => None,
            None => {
                let claim = self.cluster.claim(name).await;
                let claim = claim.map_err(|error| other(format!("reading the claim: {error}")))?;
                Some(claim.ok_or_else(|| other("there is no such claim any more".to_owned()))?)
            }
        };
        let name = name.clone();
        let done = blocking(self, move |agent| {
            let _lock = agent.preparer.lock()?;
            let (record, is_new) = match (known, claim) {
                (Some(record), _) => {
                    if let Some(joins) = &joins {
                        joins.check_known(&name, &record.namespaces)?;
                    }
                    (record, false)
                }
                (None, Some(claim)) => {
                    let gpus = agent.gpus()?;
                    (agent.preparer.prepare(&name, &claim, &gpus, joins.as_ref())?, true)
                }
                (None, None) => return Ok((Vec::new(), false)),
            };
            Ok((agent.preparer.ensure(&record)?, is_new))
        });
        done.await.map_err(other)?.map_err(failed)
    }

    /// The GPUs that are known, else what the daemon says now.
    fn gpus(&self) -> Result<Vec<Gpu>, PrepareError> {
        let known: Vec<Gpu> = self.view().states.iter().map(|state| state.gpu.clone()).collect();
        match known.is_empty() {
            false => Ok(known),
            true => Ok(gpu::of_report(&self.preparer.daemon().report()?)),
        }
    }

    /// Takes a claim's share away.
    ///
    /// # Errors
    /// Why not.
    pub async fn unprepare(self: &Arc<Self>, name: &ClaimName) -> Result<(), String> {
        let uid = name.uid.clone();
        let done = blocking(self, move |agent| {
            let _lock = agent.preparer.lock()?;
            agent.preparer.unprepare(&uid)
        });
        match done.await.and_then(|done| done.map_err(|error| error.to_string())) {
            Ok(record) => {
                let mut view = self.view();
                view.applied.remove(&name.uid);
                view.gone.remove(&name.uid);
                drop(view);
                self.counts.add(Counted::Unprepared, usize::from(record.is_some()));
                Ok(())
            }
            Err(error) => {
                log(format_args!("claim {name}: unprepare: {error}"));
                self.counts.add(Counted::Failed, 1);
                Err(error)
            }
        }
    }

    /// Says something in an event, without waiting for it.
    fn tell(self: &Arc<Self>, name: ClaimName, reason: &'static str, message: String) {
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            if let Err(error) = agent.cluster.event(&name, reason, &message).await {
                log(format_args!("claim {name}: event: {error}"));
            }
        });
    }

    fn tell_status(self: &Arc<Self>, name: ClaimName) {
        let agent = Arc::clone(self);
        tokio::spawn(async move {
            let uid = name.uid.clone();
            let record = blocking(&agent, move |agent| agent.preparer.known(&uid)).await;
            let Ok(Ok(Some(record))) = record else { return };
            let server = agent.preparer.daemon().server();
            if let Err(error) = agent.cluster.apply_status(&record, server).await {
                log(format_args!("claim {name}: status: {error}"));
            }
        });
    }

    /// Looks at the daemon: GPUs and how they are.
    fn look(&self) {
        let report = self.preparer.daemon().report();
        let why = report.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let now = jiff::Timestamp::now().to_string();
        let mut view = self.view();
        let view = &mut *view;
        if view.report.is_some() != report.is_ok() {
            match &report {
                Ok(report) => log(format_args!(
                    "the control daemon answers: version {}, {} GPUs",
                    report.version,
                    report.devices.len()
                )),
                Err(error) => log(error),
            }
        }
        let before: Vec<Gpu> = view.states.iter().map(|state| state.gpu.clone()).collect();
        // A daemon that knows no devices yet has not looked for them.
        let gpus = match &report {
            Ok(report) if !report.devices.is_empty() || before.is_empty() => gpu::of_report(report),
            _ => before,
        };
        let state = |gpu: Gpu| {
            let watch = view.watches.entry(gpu.uuid.clone()).or_default();
            let health =
                watch.look(&gpu.uuid, report.as_ref().map_err(|_| why.as_str()), self.effect, &now);
            DeviceState { gpu, health }
        };
        view.states = gpus.into_iter().map(state).collect();
        view.report = report.ok();
        // The kubelet wants to hear now and then that nothing has changed.
        self.health.send_replace(view.states.clone());
    }

    /// The devices of the node's slice as they are now; `None` while nothing is known.
    fn devices(&self) -> Option<Vec<Value>> {
        let view = self.view();
        if view.report.is_none() && view.states.is_empty() {
            return None;
        }
        let driver = self.preparer.driver();
        Some(view.states.iter().map(|of| of.gpu.device(driver, Some(&of.health))).collect())
    }

    fn repair(&self) {
        let repaired = self.preparer.lock().and_then(|_lock| self.preparer.repair());
        match repaired {
            Ok(repairs) => {
                self.counts.add(Counted::Restored, repairs.restored.len());
                let removed = repairs.removed_namespaces.len() + repairs.removed_specs.len();
                self.counts.add(Counted::Removed, removed);
                self.counts.add(Counted::Torn, repairs.torn);
                if repairs != crate::prepare::Repairs::default() {
                    log(format_args!("repaired: {repairs:?}"));
                }
                // What was made again has the limits of its allocation.
                let mut view = self.view();
                repairs.restored.iter().for_each(|claim| drop(view.applied.remove(&claim.uid)));
            }
            Err(error) => log(format_args!("repair: {error}")),
        }
    }

    /// Looks at the claims that are prepared: annotations that change them, and claims that are gone.
    async fn look_at_claims(self: &Arc<Self>) -> Result<(), String> {
        let all = blocking(self, |agent| agent.preparer.all()).await?;
        for record in all.map_err(|error| error.to_string())? {
            let name = record.claim.clone();
            let claim = match self.cluster.claim(&name).await {
                Ok(claim) => claim.filter(|of| of.metadata.uid.as_ref() == Some(&name.uid)),
                Err(error) => return Err(format!("claim {name}: {error}")),
            };
            let Some(claim) = claim else {
                let looks = {
                    let mut view = self.view();
                    let looks = view.gone.entry(name.uid.clone()).or_default();
                    *looks += 1;
                    *looks
                };
                if looks >= GONE_LOOKS_MAX {
                    log(format_args!("claim {name} is gone: its share goes too"));
                    self.unprepare(&name).await?;
                }
                continue;
            };
            let key = self.preparer.driver().key("share");
            let annotations = claim.metadata.annotations.unwrap_or_default();
            let text = annotations.get(&key).cloned().unwrap_or_default();
            let applied = self.view().applied.get(&name.uid).cloned().unwrap_or_default();
            if text == applied {
                continue;
            }
            self.view().applied.insert(name.uid.clone(), text.clone());
            let resized = blocking(self, move |agent| {
                let asked =
                    if text.is_empty() { Ok(Resize::default()) } else { Resize::parse(&text) };
                asked.and_then(|resize| agent.preparer.resize(&record, &resize).map(|n| (text, n)))
            });
            match resized.await? {
                Ok((text, programs)) => {
                    let what = if text.is_empty() { "its allocation".to_owned() } else { text };
                    self.tell(name, "Resized", format!("{what}, {programs} running programs"));
                }
                Err(error) => {
                    self.tell(name, "ResizeRefused", format!("annotation {key}: {error}"))
                }
            }
        }
        Ok(())
    }

    /// Looks, publishes and repairs until the end.
    pub async fn watch(self: Arc<Self>, interval: Duration) {
        let mut published: Option<Vec<Value>> = None;
        let mut generation = 0;
        for look in 0_u32.. {
            let was_up = self.view().report.is_some();
            if let Err(error) = blocking(&self, Agent::look).await {
                log(error);
            }
            let is_up = self.view().report.is_some();
            if is_up && (!was_up || look.is_multiple_of(LOOKS_A_REPAIR)) {
                let _ = blocking(&self, Agent::repair).await;
            }
            if let Some(devices) = self.devices()
                && published.as_ref() != Some(&devices)
            {
                match self.publish(&devices, &mut generation).await {
                    Ok(()) => published = Some(devices),
                    Err(error) => log(format_args!("publishing the node's slice: {error}")),
                }
            }
            if is_up && let Err(error) = self.look_at_claims().await {
                log(error);
            }
            tokio::time::sleep(interval).await;
        }
    }

    async fn publish(&self, devices: &[Value], generation: &mut i64) -> kube::Result<()> {
        let there = self.cluster.slice().await?;
        let before = there.as_ref().map_or(0, |slice| slice.spec.pool.generation);
        *generation = before.max(*generation) + 1;
        let uid = self.cluster.node_uid().await?.unwrap_or_default();
        let node = (self.cluster.node(), uid.as_str());
        match gpu::slice(self.preparer.driver(), node, *generation, devices) {
            Some(slice) => {
                self.cluster.apply_slice(&slice).await?;
                log(format_args!("published {} GPUs", devices.len()));
            }
            None => {
                log("this node has no GPU: it publishes nothing");
                if there.is_some() {
                    self.cluster.delete_slice().await?;
                }
            }
        }
        Ok(())
    }

    /// The metrics page.
    pub fn page(&self) -> String {
        let records = self.preparer.all().unwrap_or_default();
        page(&self.counts, &records, self.view().report.as_ref())
    }
}
