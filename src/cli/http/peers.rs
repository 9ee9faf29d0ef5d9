//! How many connections come from one address, so that none takes all that there are.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many connections come from each address.
#[derive(Clone)]
pub(super) struct PeerCounts {
    most: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// The connection of a peer, as long as it is counted.
pub(super) struct CountedPeer {
    counts: PeerCounts,
    /// `None`: it is not counted.
    from: Option<IpAddr>,
}

impl PeerCounts {
    /// At most so many connections of each.
    pub(super) fn new(most: usize) -> Self {
        Self { most, open: Arc::default() }
    }

    /// Counts one more of that peer; `None`: it has as many as it may have. This machine is not counted: what stands before the
    /// server on it brings the clients of all.
    pub(super) fn admit(&self, peer: IpAddr) -> Option<CountedPeer> {
        let from = Some(source(peer)).filter(|from| !from.is_loopback());
        if let Some(from) = from {
            let mut open = self.open();
            let count = open.entry(from).or_default();
            if *count >= self.most {
                return None;
            }
            *count = count.saturating_add(1);
        }
        Some(CountedPeer { counts: self.clone(), from })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CountedPeer {
    fn drop(&mut self) {
        let Some(from) = self.from else { return };
        let mut open = self.counts.open();
        let left = open.get(&from).map_or(0, |count| count.saturating_sub(1));
        if left == 0 {
            open.remove(&from);
        } else {
            open.insert(from, left);
        }
    }
}

/// Who is one peer: of IPv6 each host has a network of 64 bits (RFC 4291, section 2.5.4).
fn source(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_peer_has_more_connections_than_it_may() {
        let counts = PeerCounts::new(2);
        let admit = |peer: &str| counts.admit(peer.parse().unwrap());
        for (peer, same) in [("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8::1", "2001:db8::ffff:2")] {
            let (first, second) = (admit(peer).unwrap(), admit(same).unwrap());
            assert!(admit(peer).is_none() && admit(same).is_none(), "{peer}");
            assert!(admit("192.0.2.2").is_some() && admit("2001:db8:0:1::1").is_some());
            drop(first);
            let third = admit(peer).unwrap();
            assert!(admit(peer).is_none());
            drop((second, third));
        }
        assert!(counts.open().is_empty(), "who has gone is forgotten");
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            let many: Vec<CountedPeer> = (0..9).filter_map(|_| admit(here)).collect();
            assert_eq!(many.len(), 9);
        }
    }
}
