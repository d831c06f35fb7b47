//! The next definition of each interposed symbol: libc's, or that of another preload library in line. It is
//! looked up once: in the constructor, or at the first call if that comes earlier.

use super::stand_ins;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// One symbol and its next definition.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// The address, null if no library in line defines the symbol and nothing stands in for it.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            self.resolve()
        } else {
            address
        }
    }

    /// Looks the symbol up. glibc's `dlsym` neither allocates nor calls an interposed symbol
    /// when it succeeds, so that this may happen inside an allocator's own initialisation.
    #[cold]
    pub(crate) fn resolve(&self) -> *mut c_void {
        // SAFETY: the name is NUL-terminated; RTLD_NEXT starts behind this library.
        let mut address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if address.is_null() {
            address = stand_ins::find(self.name).cast_mut();
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// The next definitions of a module's interposed symbols, in `symbols`, and a `resolve` for all.
macro_rules! symbols {
    ($($name:ident),*) => {
        #[allow(non_upper_case_globals)]
        mod symbols {
            use $crate::exports::next::Next;
            $(
                pub(super) static $name: Next = Next::new(
                    match std::ffi::CStr::from_bytes_with_nul(
                        concat!(stringify!($name), "\0").as_bytes(),
                    ) {
                        Ok(name) => name,
                        Err(_) => panic!("a symbol's name has no NUL inside"),
                    },
                );
            )*
        }

        /// Resolves every symbol of this module.
        pub(super) fn resolve() {
            $( symbols::$name.resolve(); )*
        }
    };
}

/// Declares interposed functions. Symbols of one signature and one body stand together (`open | open64`:
/// `off_t` is `off64_t` on the supported machines). Each body sees its arguments, and `next` calls the next
/// definition. A symbol without one fails with `ENOSYS`.
///
/// Many are cancellation points: `pthread_cancel` unwinds the thread through them. By `extern "C"` the compiler may assume
/// that nothing ever does, and the process would end.
macro_rules! interpose {
    (@one $name:ident ($($argument:ident: $type:ty),*) -> $result:ty |$next:ident| $body:block) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            // By value: without a later use it needs no place in memory.
            let $next = move || {
                let address = symbols::$name.address();
                if address.is_null() {
                    coldstream_engine::core::errno::set(libc::ENOSYS);
                    return -1_isize as $result;
                }
                // SAFETY: the address is the symbol's next definition, which has the same
                // signature; the application vouches for the arguments.
                unsafe {
                    std::mem::transmute::<
                        *mut std::ffi::c_void,
                        unsafe extern "C-unwind" fn($($type),*) -> $result,
                    >(address)($($argument),*)
                }
            };
            $body
        }
    };
    ($(
        fn $($name:ident)|+ ($($arguments:tt)*) -> $result:ty |$next:ident| $body:block
    )*) => {
        $($crate::exports::next::interpose!(@each [$($name)+] ($($arguments)*) -> $result |$next| $body);)*
        $crate::exports::next::symbols!($($($name),+),*);
    };
    (@each [$($name:ident)+] $arguments:tt -> $result:ty |$next:ident| $body:block) => {
        $($crate::exports::next::interpose!(@one $name $arguments -> $result |$next| $body);)+
    };
}

pub(crate) use {interpose, symbols};
