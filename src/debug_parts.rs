//! `Debug` for types that hold what cannot be shown, or must not be.

/// Shows these parts of a type, and that there is more: `debug_parts!(|this: Guard| run: this.id);`.
macro_rules! debug_parts {
    (|$this:ident: $type:ident $(<$life:lifetime>)?| $($name:ident: $value:expr),* $(,)?) => {
        impl core::fmt::Debug for $type $(<$life>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let $this = self;
                let _ = $this;
                f.debug_struct(stringify!($type))$(.field(stringify!($name), &$value))*.finish_non_exhaustive()
            }
        }
    };
}

pub(crate) use debug_parts;
