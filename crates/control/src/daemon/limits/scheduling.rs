//! Scheduling as the operator sets it: rules for clients, and settings for servers, those to come too.

use super::change::ChangeError;
use crate::daemon::{ANSWER_S_MAX, Daemon, QueryError, Reply};
use crate::users;
use channel::message::{Question, Schedule};
use cuda_api::settings::Priority;
use locks::{Mutex, MutexGuard};
use scheduling::rules::{RuleError, Rules};
use scheduling::settings::{PolicyName, SettingError};
use scheduling::{Class, ClientSettings, Settings};
use std::time::{Duration, Instant};

/// What the operator has set.
#[derive(Debug, Default)]
struct Operator {
    rules: Rules,
    rules_text: String,
    settings: Settings,
}

/// The scheduling that a daemon gives to clients and servers.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Scheduling(Mutex<Operator>);

impl Scheduling {
    /// As the daemon's environment says. Returns a sentence for each variable that is wrong, which
    /// then counts as not given.
    pub fn from_environment() -> (Self, Vec<String>) {
        let value = |name| std::env::var(name).unwrap_or_default();
        let (mut operator, mut warnings) = (Operator::default(), Vec::new());
        let name = cuda_api::environment::OPENMPS_CLASS_RULES;
        let text = value(name);
        match Rules::parse(&text) {
            Ok(rules) => (operator.rules, operator.rules_text) = (rules, text),
            Err(error) => warnings.push(format!("{name} is not used: {error}")),
        }
        let name = cuda_api::environment::OPENMPS_SCHEDULING;
        match Settings::parse(&value(name)) {
            Ok(settings) => operator.settings = settings,
            Err(error) => warnings.push(format!("{name} is not used: {error}")),
        }
        (Self(Mutex::new(operator)), warnings)
    }

    fn lock(&self) -> MutexGuard<'_, Operator> {
        self.0.lock()
    }

    /// Settings of servers as a daemon before had them, which has checked them.
    pub fn restore(&self, text: &str) {
        if let Ok(settings) = Settings::parse(text) {
            self.lock().settings = settings;
        }
    }

    /// A sentence about what a client asks for in vain.
    pub fn not_used(asked: &str) -> Option<String> {
        let error = ClientSettings::parse(asked).err()?;
        Some(format!("asks for scheduling {asked:?}, not used: {error}"))
    }

    /// A client's settings: what it asks for, then what its priority means, and over that what the first rule
    /// says that fits it.
    pub fn of_client(
        &self,
        uid: u32,
        command: &str,
        asked: &str,
        priority: Priority,
    ) -> ClientSettings {
        let mut settings = ClientSettings::parse(asked).unwrap_or_default();
        if priority == Priority::BelowNormal && settings.class == Class::Normal {
            settings.class = Class::Batch;
        }
        let operator = self.lock();
        if let Some(rule) = operator.rules.settings_of(&users::name(uid), uid, command) {
            // Rules were checked when they were set.
            let _ = settings.change(rule);
        }
        settings
    }

    /// The rules for clients.
    pub fn rules_text(&self) -> String {
        self.lock().rules_text.clone()
    }

    /// Adds the policy that looks at weights, without which they have no effect; the settings then, if that changed
    /// them. `fair` is an operator's word that goes before.
    pub fn add_weights(&self) -> Option<String> {
        let mut operator = self.lock();
        let policy = &mut operator.settings.policy;
        if policy.contains(&PolicyName::Weighted) || policy.contains(&PolicyName::Fair) {
            return None;
        }
        policy.push(PolicyName::Weighted);
        Some(operator.settings.to_string())
    }

    /// What servers are started with.
    pub fn of_servers(&self) -> String {
        self.lock().settings.to_string()
    }
}

impl Daemon {
    /// The rules for clients to come.
    pub(crate) fn class_rules(&self) -> String {
        self.scheduling.rules_text()
    }

    /// Sets other rules for clients to come.
    pub(crate) fn set_class_rules(&self, text: &str) -> Result<(), RuleError> {
        let rules = Rules::parse(text)?;
        let mut operator = self.scheduling.lock();
        (operator.rules, operator.rules_text) = (rules, text.to_owned());
        Ok(())
    }

    /// The settings of servers.
    pub(crate) fn server_scheduling(&self) -> String {
        self.scheduling.of_servers()
    }

    /// Changes settings of all servers, those to come too. Returns the servers that did not take
    /// them, and why.
    pub(crate) fn set_server_scheduling(
        &self,
        text: &str,
    ) -> Result<Vec<ChangeError>, SettingError> {
        let settings = {
            let mut operator = self.scheduling.lock();
            operator.settings.change(text)?;
            operator.settings.to_string()
        };
        let running = self.lock().notify_all();
        let asked = running.into_iter().map(|pid| self.schedule(pid, 0, &settings));
        Ok(asked.filter_map(Result::err).collect())
    }

    /// The configuration file gives weights: they count for the servers to come.
    pub(crate) fn weigh_at_start(&self) {
        if let Some(settings) = self.scheduling.add_weights() {
            self.log(format!("Weights (timeslice_pct) count: {settings}"));
        }
    }

    /// An operator has given a server or a namespace a weight: from now on weights count.
    pub(crate) fn weigh(&self) {
        let Some(settings) = self.scheduling.add_weights() else { return };
        self.log(format!("Weights (timeslice_pct) count from now on: {settings}"));
        let running = self.lock().notify_all();
        for pid in running {
            if let Err(error) = self.schedule(pid, 0, &settings) {
                self.log(format!("Server {pid} does not learn that weights count: {error}"));
            }
        }
    }

    /// Changes settings of a server's client, of this PID if that is known. Its process has them at other
    /// servers too.
    pub(crate) fn schedule_client(
        &self,
        server: u32,
        (id, pid): (u32, Option<u32>),
        text: &str,
    ) -> Result<(), ChangeError> {
        self.schedule(server, id, text)?;
        self.keep(server, pid, |kept, place| kept.keep_scheduling(place, text));
        Ok(())
    }

    /// Changes settings of a server's client, or with number 0 the server's own.
    fn schedule(&self, server: u32, client: u32, text: &str) -> Result<(), ChangeError> {
        let deadline = Instant::now() + Duration::from_secs(ANSWER_S_MAX);
        let change = Schedule { client, settings: text.to_owned() };
        match self.ask(server, Question::Schedule(change), deadline)? {
            Reply::Done(_) => Ok(()),
            Reply::Refused(reason) => Err(ChangeError::Refused(reason)),
            _ => Err(QueryError::Silent(server).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_brings_its_policy_along() {
        let scheduling = Scheduling::default();
        let policy =
            |text: Option<String>| text.map(|text| text.split(' ').next().map(str::to_owned));
        let with = scheduling.add_weights();
        assert_eq!(policy(with), Some(Some("policy=classes+weighted".to_owned())));
        assert_eq!(scheduling.add_weights(), None);
        scheduling.lock().settings = Settings::parse("policy=fair").unwrap();
        assert_eq!(scheduling.add_weights(), None, "an operator wants something else");
    }

    #[test]
    fn a_rule_goes_before_what_a_client_asks_for() {
        let operator = Operator {
            rules: Rules::parse("command:train batch weight=2; command:watch normal").unwrap(),
            ..Operator::default()
        };
        let scheduling = Scheduling(Mutex::new(operator));
        let with = |command, asked, priority| {
            scheduling.of_client(0, command, asked, priority).to_string()
        };
        let of = |command, asked| with(command, asked, Priority::Normal);
        assert_eq!(of("serve", ""), "class=normal");
        assert_eq!(of("serve", "latency deadline=5ms"), "class=latency deadline=5ms");
        assert_eq!(of("train", "latency"), "class=batch weight=2");
        assert_eq!(of("serve", "urgent"), "class=normal");
        let wrong = Scheduling::not_used("urgent").expect("a sentence");
        assert!(wrong.contains("latency, normal or batch"), "{wrong}");
        let below = |command, asked| with(command, asked, Priority::BelowNormal);
        assert_eq!(below("serve", ""), "class=batch");
        assert_eq!(below("serve", "latency"), "class=latency");
        assert_eq!(below("watch", ""), "class=normal", "a rule goes before a priority");
    }
}
