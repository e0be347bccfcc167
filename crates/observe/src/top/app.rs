//! Application state: what the screen shows, and what keys do to it.

use crate::rates::{ClientRates, Rates};
use crate::reading::ClientKey;
use anyhow::Result;
use control::counts::{ClientCounts, Kernel};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};

/// Values of history that are kept, of a client or device.
pub(super) const HISTORY_MAX: usize = 120;

/// Lines that a key for a page goes.
const PAGE: usize = 10;

/// What the screen wants of the program around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The end.
    Quit,
    /// A command for the daemon.
    Command(String),
    /// Clients by kernel.
    Kernels,
}

/// By what clients are sorted, most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Sms,
    Busy,
    Memory,
    Kernels,
    Id,
}

impl Sort {
    const ALL: [Self; 5] = [Self::Sms, Self::Busy, Self::Memory, Self::Kernels, Self::Id];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sms => "SM share",
            Self::Busy => "busy",
            Self::Memory => "memory",
            Self::Kernels => "kernels/s",
            Self::Id => "ID",
        }
    }

    fn value(self, client: &ClientRates) -> f64 {
        match self {
            Self::Sms => client.sm_share,
            Self::Busy => client.busy,
            Self::Memory => client.memory as f64,
            Self::Kernels => client.kernels_per_s,
            Self::Id => -f64::from(client.id),
        }
    }
}

/// What keys mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Clients,
    /// The kernels of a client.
    Kernels(ClientKey),
    /// The filter is being typed.
    Filter,
    /// The share of a client is being typed.
    Share(ClientKey, String),
    /// The end of a client, by its name and command, is to be confirmed.
    End(ClientKey, String, String),
    Help,
}

/// The screen's state.
pub struct App {
    pub(super) colours: bool,
    /// The locale has only ASCII.
    pub(super) ascii: bool,
    pub(super) rates: Rates,
    pub(super) counts: Vec<ClientCounts>,
    history: HashMap<ClientKey, VecDeque<f64>>,
    device_history: HashMap<String, VecDeque<(f64, f64)>>,
    pub(super) mode: Mode,
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Which device's clients are shown; `None`: all.
    pub(super) device: Option<usize>,
    /// Line of the chosen client, of those that are shown.
    pub(super) chosen: usize,
    /// Line of the chosen kernel, while a client's kernels are shown.
    pub(super) kernel: usize,
    /// The result of the last command.
    pub(super) message: String,
    /// What is wrong with the last look, until one succeeds.
    pub(super) trouble: String,
    wish: Option<Wish>,
}

impl App {
    /// Nothing is known yet.
    pub fn new(colours: bool) -> Self {
        Self {
            colours,
            ascii: false,
            rates: Rates::default(),
            counts: Vec::new(),
            history: HashMap::new(),
            device_history: HashMap::new(),
            mode: Mode::Clients,
            sort: Sort::Sms,
            filter: String::new(),
            device: None,
            chosen: 0,
            kernel: 0,
            message: String::new(),
            trouble: String::new(),
            wish: None,
        }
    }

    /// New rates.
    pub fn update(&mut self, rates: Rates) {
        self.trouble.clear();
        let is_there =
            |key: &ClientKey| rates.clients.iter().any(|client| (client.server, client.id) == *key);
        self.history.retain(|key, _| is_there(key));
        for client in &rates.clients {
            let history = self.history.entry((client.server, client.id)).or_default();
            history.push_back(client.sm_share);
            if history.len() > HISTORY_MAX {
                history.pop_front();
            }
        }
        for device in &rates.devices {
            let history = self.device_history.entry(device.uuid.clone()).or_default();
            history.push_back((device.util, device.sm_activity));
            if history.len() > HISTORY_MAX {
                history.pop_front();
            }
        }
        self.rates = rates;
        self.chosen = self.chosen.min(self.shown().len().saturating_sub(1));
    }

    /// Clients by kernel.
    pub fn set_counts(&mut self, counts: Result<Vec<ClientCounts>>) {
        match counts {
            Ok(counts) => self.counts = counts,
            Err(error) => self.lost(format!("{error:#}")),
        }
    }

    /// The last look came to nothing; why.
    pub fn lost(&mut self, why: String) {
        self.trouble = why;
    }

    /// True while a client's kernels are shown.
    pub fn wants_kernels(&self) -> bool {
        matches!(self.mode, Mode::Kernels(_))
    }

    /// Takes the result of a command.
    pub fn said(&mut self, said: Result<String>) {
        match said {
            Ok(text) if text.trim().is_empty() => self.message = "done".to_owned(),
            Ok(text) => self.message = text.trim().to_owned(),
            Err(error) => self.message = format!("{error:#}"),
        }
    }

    /// What is wanted, once.
    pub fn take_wish(&mut self) -> Option<Wish> {
        self.wish.take()
    }

    /// A client's shares of the SMs, oldest first.
    pub(super) fn history_of(&self, key: ClientKey) -> Vec<f64> {
        self.history.get(&key).map(|history| history.iter().copied().collect()).unwrap_or_default()
    }

    /// A device's GPU-Util and SM activity, oldest first.
    pub(super) fn history_of_device(&self, uuid: &str) -> Vec<(f64, f64)> {
        let history = self.device_history.get(uuid);
        history.map(|history| history.iter().copied().collect()).unwrap_or_default()
    }

    /// The clients that are shown, in their order.
    pub(super) fn shown(&self) -> Vec<&ClientRates> {
        let uuid = self.device.and_then(|at| self.rates.devices.get(at)).map(|d| d.uuid.as_str());
        let filter = self.filter.to_lowercase();
        let matches = |client: &&ClientRates| {
            uuid.is_none_or(|uuid| client.device == uuid)
                && (filter.is_empty()
                    || client.command.to_lowercase().contains(&filter)
                    || client.user.to_lowercase().contains(&filter)
                    || client.pid.is_some_and(|pid| pid.to_string().contains(&filter)))
        };
        let mut shown: Vec<&ClientRates> = self.rates.clients.iter().filter(matches).collect();
        shown.sort_by(|a, b| self.sort.value(b).total_cmp(&self.sort.value(a)));
        shown
    }

    pub(super) fn client(&self, key: ClientKey) -> Option<&ClientRates> {
        self.rates.clients.iter().find(|client| (client.server, client.id) == key)
    }

    /// A client's kernels.
    pub(super) fn kernels_of(&self, key: ClientKey) -> &[Kernel] {
        let counts = self.counts.iter().find(|counts| (counts.server, counts.client) == key);
        counts.map(|counts| counts.kernels.as_slice()).unwrap_or_default()
    }

    fn chosen_key(&self) -> Option<ClientKey> {
        self.shown().get(self.chosen).map(|client| (client.server, client.id))
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent) {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.wish = Some(Wish::Quit);
            return;
        }
        match std::mem::replace(&mut self.mode, Mode::Clients) {
            Mode::Clients => self.key_clients(key.code),
            Mode::Kernels(of) => match key.code {
                KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | 'k') => {}
                code => {
                    let last = self.kernels_of(of).len().saturating_sub(1);
                    match code {
                        KeyCode::Down | KeyCode::Char('j') => self.kernel += 1,
                        KeyCode::Up => self.kernel = self.kernel.saturating_sub(1),
                        KeyCode::PageDown => self.kernel += PAGE,
                        KeyCode::PageUp => self.kernel = self.kernel.saturating_sub(PAGE),
                        KeyCode::Home => self.kernel = 0,
                        KeyCode::End => self.kernel = last,
                        _ => {}
                    }
                    self.kernel = self.kernel.min(last);
                    self.mode = Mode::Kernels(of);
                }
            },
            Mode::Help => {}
            Mode::Filter => match key.code {
                KeyCode::Enter => {}
                KeyCode::Esc => self.filter.clear(),
                other => {
                    edit(&mut self.filter, other);
                    self.chosen = 0;
                    self.mode = Mode::Filter;
                }
            },
            Mode::Share(of, mut text) => match key.code {
                KeyCode::Enter => self.set_share(of, &text),
                KeyCode::Esc => {}
                other => {
                    edit(&mut text, other);
                    self.mode = Mode::Share(of, text);
                }
            },
            Mode::End(of, name, command) => match key.code {
                KeyCode::Char('y' | 'Y') => {
                    let (server, client) = of;
                    let line = format!("terminate_client {server} id:{client}");
                    self.wish = Some(Wish::Command(line));
                }
                KeyCode::Esc | KeyCode::Char('n' | 'N' | 'q') => {}
                _ => self.mode = Mode::End(of, name, command),
            },
        }
    }

    fn key_clients(&mut self, code: KeyCode) {
        self.message.clear();
        let last = self.shown().len().saturating_sub(1);
        match code {
            KeyCode::Char('q') => self.wish = Some(Wish::Quit),
            // Pressed once too often it ends nothing.
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Down | KeyCode::Char('j') => self.chosen = (self.chosen + 1).min(last),
            KeyCode::Up => self.chosen = self.chosen.saturating_sub(1),
            KeyCode::Char('s') => {
                let at = Sort::ALL.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = Sort::ALL[(at + 1) % Sort::ALL.len()];
            }
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('h' | '?') => self.mode = Mode::Help,
            KeyCode::Tab => {
                let devices = self.rates.devices.len();
                self.device = match self.device {
                    None if devices > 0 => Some(0),
                    Some(at) if at + 1 < devices => Some(at + 1),
                    _ => None,
                };
                self.chosen = 0;
            }
            KeyCode::Enter | KeyCode::Char('k') => {
                if let Some(key) = self.chosen_key() {
                    self.mode = Mode::Kernels(key);
                    self.kernel = 0;
                    self.wish = Some(Wish::Kernels);
                }
            }
            KeyCode::Char('l') => {
                if let Some(key) = self.chosen_key() {
                    self.mode = Mode::Share(key, String::new());
                }
            }
            KeyCode::Char('x') | KeyCode::Delete => {
                if let Some(client) = self.shown().get(self.chosen) {
                    let of = (client.server, client.id);
                    self.mode = Mode::End(of, named(client), client.command.clone());
                }
            }
            _ => {}
        }
    }

    fn set_share(&mut self, (server, client): ClientKey, text: &str) {
        let text = text.trim().trim_end_matches('%');
        match text.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => {
                // Each server numbers its clients from 1 on.
                let line = format!("set id:{client} server={server} sms={text}%");
                self.wish = Some(Wish::Command(line));
            }
            _ => self.message = format!("{text:?} is no percentage from 1 to 100"),
        }
    }
}

/// How a client is called on the screen.
pub(super) fn named(client: &ClientRates) -> String {
    client.pid.map_or_else(|| format!("ID {}", client.id), |pid| format!("PID {pid}"))
}

fn edit(text: &mut String, code: KeyCode) {
    match code {
        KeyCode::Char(character) => text.push(character),
        KeyCode::Backspace => drop(text.pop()),
        _ => {}
    }
}
