//! Opaque parameters: ShareConfig, which classes and claims may carry for a share.
//!
//! What is not known is refused by name, so that a later version can add it.

use crate::driver::Driver;
use crate::quantity;
use scheduling::Class;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// The `kind` of the parameters.
pub const KIND: &str = "ShareConfig";

/// What is set for a share beyond its capacities; `None`: nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Parameters {
    /// Its class.
    #[serde(with = "class_word")]
    pub class: Option<Class>,
    /// 0 normal, 1 below normal.
    pub priority: Option<u8>,
    /// SMs that it may have while others leave them; its `sms` are what it may have at least.
    pub limit_sms: Option<u32>,
    /// Memory that it is promised, bytes; between that and its `memory` it may be ended for others.
    pub soft_memory_bytes: Option<u64>,
}

/// Why parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParametersError {
    /// They are no object.
    #[error("parameters are an object with apiVersion and kind, not {0}")]
    NoObject(&'static str),
    /// Another version.
    #[error("apiVersion is {wanted:?} here, not {given:?}")]
    Version {
        /// What it must be.
        wanted: String,
        /// What it is.
        given: String,
    },
    /// Another kind.
    #[error("kind is {KIND:?} here, not {0:?}")]
    Kind(String),
    /// A field that is not known.
    #[error("{0:?} is no field of {KIND}: there are class, priority, limitSms and softMemory")]
    Unknown(String),
    /// A value that is not allowed.
    #[error("{field}: {reason}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is allowed, and what was given.
        reason: String,
    },
}

impl Parameters {
    /// Reads a ShareConfig.
    ///
    /// # Errors
    /// What is wrong with it: a field that is not known by its name.
    pub fn parse(driver: &Driver, value: &Value) -> Result<Parameters, ParametersError> {
        let Value::Object(fields) = value else {
            return Err(ParametersError::NoObject(kind_of(value)));
        };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("apiVersion") != driver.parameters_version() {
            let (wanted, given) = (driver.parameters_version(), text("apiVersion").to_owned());
            return Err(ParametersError::Version { wanted, given });
        }
        if text("kind") != KIND {
            return Err(ParametersError::Kind(text("kind").to_owned()));
        }
        let mut read = Parameters::default();
        for (name, value) in fields {
            match name.as_str() {
                "apiVersion" | "kind" => {}
                "class" => {
                    let word = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    read.class = Some(
                        word.parse::<Class>().map_err(|error| of("class")(error.to_string()))?,
                    );
                }
                "priority" => match value.as_u64() {
                    Some(priority @ 0..=1) => read.priority = Some(priority as u8),
                    _ => {
                        let reason = format!("0 (normal) or 1 (below normal), not {value}");
                        return Err(of("priority")(reason));
                    }
                },
                "limitSms" => match value.as_u64().and_then(|sms| u32::try_from(sms).ok()) {
                    Some(sms @ 1..) => read.limit_sms = Some(sms),
                    _ => {
                        let reason = format!("a number of SMs above 0, not {value}");
                        return Err(of("limitSms")(reason));
                    }
                },
                "softMemory" => {
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    let bytes = quantity::parse(&text).map_err(of("softMemory"))?;
                    read.soft_memory_bytes = Some(bytes);
                }
                other => return Err(ParametersError::Unknown(other.to_owned())),
            }
        }
        Ok(read)
    }

    /// Takes what another one says over this.
    pub fn merge(&mut self, other: &Parameters) {
        self.class = other.class.or(self.class);
        self.priority = other.priority.or(self.priority);
        self.limit_sms = other.limit_sms.or(self.limit_sms);
        self.soft_memory_bytes = other.soft_memory_bytes.or(self.soft_memory_bytes);
    }

    /// Whether they fit a share of so many SMs and bytes on a GPU of `all_sms`.
    ///
    /// # Errors
    /// Which field does not.
    pub fn check(&self, sms: u32, memory_bytes: u64, all_sms: u32) -> Result<(), ParametersError> {
        if let Some(limit) = self.limit_sms
            && !(sms..=all_sms).contains(&limit)
        {
            let reason = format!("from the share's {sms} SMs to the GPU's {all_sms}, not {limit}");
            return Err(of("limitSms")(reason));
        }
        if let Some(soft) = self.soft_memory_bytes
            && soft > memory_bytes
        {
            let reason = format!("at most the share's {memory_bytes} bytes, not {soft}");
            return Err(of("softMemory")(reason));
        }
        Ok(())
    }
}

/// A class as its word.
mod class_word {
    use super::Class;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(class: &Option<Class>, to: S) -> Result<S::Ok, S::Error> {
        class.map(Class::word).serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Class>, D::Error> {
        let word = Option::<String>::deserialize(from)?;
        word.map(|word| word.parse::<Class>()).transpose().map_err(serde::de::Error::custom)
    }
}

fn of(field: &'static str) -> impl Fn(String) -> ParametersError {
    move |reason| ParametersError::Value { field, reason }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::DRIVER_NAME;
    use serde_json::json;

    fn parse(mut value: Value) -> Result<Parameters, String> {
        let driver = Driver::new(DRIVER_NAME).unwrap();
        if let Value::Object(fields) = &mut value {
            fields.entry("apiVersion").or_insert(json!("gpu.openmps.io/v1alpha1"));
            fields.entry("kind").or_insert(json!(KIND));
        }
        Parameters::parse(&driver, &value).map_err(|error| error.to_string())
    }

    #[test]
    fn known_fields_are_read() {
        let read =
            parse(json!({"class": "latency", "priority": 1, "limitSms": 66, "softMemory": "32Gi"}));
        let wanted = Parameters {
            class: Some(Class::Latency),
            priority: Some(1),
            limit_sms: Some(66),
            soft_memory_bytes: Some(32 << 30),
        };
        assert_eq!(read, Ok(wanted));
        assert_eq!(parse(json!({})), Ok(Parameters::default()));
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        for (value, part) in [
            (json!({"limitSMs": 3}), "\"limitSMs\" is no field of ShareConfig"),
            (json!({"class": "urgent"}), "\"urgent\" is no class: say latency"),
            (json!({"class": 3}), "class: \"3\" is no class"),
            (json!({"priority": 2}), "priority: 0 (normal) or 1"),
            (json!({"limitSms": 0}), "limitSms: a number of SMs above 0"),
            (json!({"softMemory": "much"}), "softMemory: \"much\" is no quantity"),
            (json!({"kind": "GpuConfig"}), "kind is \"ShareConfig\" here"),
            (json!({"apiVersion": "gpu.openmps.io/v2"}), "apiVersion is"),
            (json!([1]), "not a list"),
            (json!(null), "not nothing"),
        ] {
            let error = parse(value.clone()).unwrap_err();
            assert!(error.contains(part), "{value}: {error}");
        }
    }

    #[test]
    fn a_claim_s_fields_go_before_its_class_s() {
        let mut all = parse(json!({"class": "batch", "limitSms": 8})).unwrap();
        all.merge(&parse(json!({"class": "latency"})).unwrap());
        assert_eq!((all.class, all.limit_sms), (Some(Class::Latency), Some(8)));
        assert!(all.check(4, 1, 8).is_ok());
        assert!(all.check(9, 1, 16).unwrap_err().to_string().contains("from the share's 9 SMs"));
        assert!(all.check(4, 1, 6).is_err());
        all.soft_memory_bytes = Some(2);
        assert!(all.check(4, 1, 8).unwrap_err().to_string().starts_with("softMemory"));
    }
}
