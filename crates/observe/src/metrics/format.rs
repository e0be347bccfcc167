//! Formats: the two texts that a scraper may ask for.

/// In which of them a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus' own, 0.0.4: what is given where nothing is asked for.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// The one that the value of a header Accept prefers.
    pub fn accepted(accept: &str) -> Self {
        let weight = |kinds: &[&str]| {
            let weights = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let kind = parts.next()?;
                let given = parts.find_map(|part| part.strip_prefix("q="));
                let weight = given.map_or(Some(1.0), |text| text.trim().parse::<f64>().ok())?;
                kinds.iter().any(|one| kind.eq_ignore_ascii_case(one)).then_some(weight)
            });
            weights.fold(0.0, f64::max)
        };
        let open = weight(&["application/openmetrics-text"]);
        match open > 0.0 && open >= weight(&["text/plain", "text/*"]) {
            true => Self::OpenMetrics,
            false => Self::Prometheus,
        }
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_asked_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        let old =
            "text/plain;version=0.0.4;q=0.6, application/openmetrics-text; version=1.0.0; q=0.2";
        assert_eq!(Format::accepted(old), Format::Prometheus);
        for none in ["", "*/*", "text/html", "application/openmetrics-text;q=0"] {
            assert_eq!(Format::accepted(none), Format::Prometheus, "{none}");
        }
        assert_eq!(Format::accepted("application/openmetrics-text"), Format::OpenMetrics);
    }
}
