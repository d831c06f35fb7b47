//! Coldstream's log of a run, and whether the run had the library that its mode says.

use crate::engine::Mode;
use crate::preloaded::Preloaded;
use anyhow::{Result, bail};
use std::fs;
use std::path::Path;

/// The lines of Coldstream's log of a run. There are none if the library had no background I/O, for
/// instance with a database that maps its SSTables.
///
/// `has_status_page`: whether a sample of the run found the library's status page. `coldstream attach` makes one,
/// too.
///
/// # Errors
/// - The mode is Coldstream, but there is neither a log line nor a status page. The library was not
///   loaded, and the run measured the database without it.
/// - The mode has no preload library, but a process of the database has Coldstream's status page.
pub fn library_log<M: Mode>(mode: &M, log: &Path, has_status_page: bool) -> Result<Vec<String>> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let is_coldstream = mode.preloaded().is_some_and(Preloaded::has_coldstream);
    if is_coldstream && text.is_empty() && !has_status_page {
        bail!(
            "mode {mode}: the library has no status page and has not written a line of log: the \
             loader did not load it"
        );
    }
    let is_plain = mode.preloaded().is_none() && mode.attach_options().is_none();
    if is_plain && has_status_page {
        bail!(
            "mode {mode}: the database has loaded Coldstream's library, which is not of this mode: \
             look for it in /etc/ld.so.preload, and in what the database starts"
        );
    }
    Ok(text.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::{Display, Formatter};

    struct Named(Option<Preloaded>, Option<&'static [&'static str]>);

    impl Display for Named {
        fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
            formatter.pad("this")
        }
    }

    impl Mode for Named {
        fn preloaded(&self) -> Option<&Preloaded> {
            self.0.as_ref()
        }

        fn attach_options(&self) -> Option<&'static [&'static str]> {
            self.1
        }
    }

    #[test]
    fn a_run_has_the_library_that_its_mode_says() {
        let preloaded = |name| Preloaded::from_name(name).map(Result::unwrap);
        let said = |mode: &Named, has_status_page| {
            let said = library_log(mode, Path::new("/no/log"), has_status_page);
            said.map_err(|error| error.to_string())
        };
        let stock = Named(None, None);
        said(&stock, false).unwrap();
        let error = said(&stock, true).unwrap_err();
        let begin = "mode this: the database has loaded Coldstream's library";
        assert!(error.starts_with(begin), "{error}");
        let coldstream = Named(preloaded("coldstream"), None);
        said(&coldstream, true).unwrap();
        let error = said(&coldstream, false).unwrap_err();
        assert!(error.contains("the loader did not load it"), "{error}");
        // `coldstream attach` makes a page, too, and so does another build of the library.
        let attached = Named(None, Some(&[]));
        let other = Named(preloaded("preload:/other.so"), None);
        for has_status_page in [false, true] {
            said(&attached, has_status_page).unwrap();
            said(&other, has_status_page).unwrap();
        }
    }
}
