//! Lists of names in messages.

/// ``one of `a`, `b`, `c` `` without the first words; long lists are cut.
pub(crate) fn list(options: &[&str]) -> String {
    const MOST: usize = 30;
    let shown: Vec<String> = options.iter().take(MOST).map(|option| format!("`{option}`")).collect();
    let rest = options.len().saturating_sub(MOST);
    if rest == 0 { shown.join(", ") } else { format!("{} and {rest} more", shown.join(", ")) }
}
