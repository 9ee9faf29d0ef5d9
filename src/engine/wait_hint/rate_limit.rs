//! The IETF header `RateLimit` (draft-ietf-httpapi-ratelimit-headers): the remaining amount of each quota, and the
//! seconds until its reset.

use super::length::{SECOND, decimal};
use super::nothing_left;
use crate::time::Nanos;

/// The resets of the used-up quotas. `limited`: the response reports a reached limit, so a quota without a remaining
/// amount may be the cause.
pub(super) fn resets(value: &str, limited: bool) -> impl Iterator<Item = (&str, Option<Nanos>)> {
    // Earlier drafts of the field (draft-ietf-httpapi-ratelimit-headers) describe one quota: `limit=100, remaining=0,
    // reset=5`. There, commas separate parameters; later they separate quotas, and semicolons the parameters.
    let earlier = !value.contains(';');
    let quotas = value.split(move |c| c == ',' && !earlier);
    quotas.filter_map(move |quota| {
        let part = |names: [&str; 2]| {
            quota.split([';', ',']).find_map(|part| {
                let (name, value) = part.split_once('=')?;
                names.contains(&name.trim()).then_some(value.trim())
            })
        };
        let reset = part(["t", "reset"])?;
        // A quota that is not used up did not cause the refusal, so its reset is ignored.
        let used_up = part(["r", "remaining"]).map_or(limited, nothing_left);
        used_up.then(|| (reset, decimal(reset, SECOND)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quotas_that_are_used_up_say_when_they_reset() {
        let read = |value, limited| {
            resets(value, limited).map(|(_, wait)| wait.unwrap().0 / SECOND).collect::<Vec<_>>()
        };
        for (value, waits) in [
            (r#""default";r=0;t=30"#, vec![30]),
            (r#""default";r=5;t=30"#, vec![]),
            (r#""minute";r=0;t=12, "day";r=400;t=80000"#, vec![12]),
            (r#""minute" ; r=0 ; t=12;pk=:dXNlcg==:"#, vec![12]),
            ("limit=100, remaining=0, reset=7", vec![7]),
            ("limit=100, remaining=3, reset=7", vec![]),
            (r#""default";r=0"#, vec![]),
            ("", vec![]),
        ] {
            assert_eq!(read(value, true), waits, "{value}");
        }
        assert_eq!(read(r#""default";t=9"#, true), [9]);
        assert_eq!(read(r#""default";t=9"#, false), [0; 0]);
    }
}
