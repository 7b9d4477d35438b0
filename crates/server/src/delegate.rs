//! Methods of a trait that pass everything on to a field.

/// Implements methods by calling them on a field: `delegate! { inner: fn name(&self) -> T; }`.
macro_rules! delegate {
    ($field:tt:) => {};
    ($field:tt: fn $name:ident(&mut $this:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;
     $($rest:tt)*) => {
        #[inline]
        fn $name(&mut $this $(, $arg: $type)*) $(-> $result)? {
            $this.$field.$name($($arg),*)
        }
        delegate! { $field: $($rest)* }
    };
    ($field:tt: fn $name:ident(&$this:ident $(, $arg:ident: $type:ty)*) $(-> $result:ty)?;
     $($rest:tt)*) => {
        #[inline]
        fn $name(&$this $(, $arg: $type)*) $(-> $result)? {
            $this.$field.$name($($arg),*)
        }
        delegate! { $field: $($rest)* }
    };
}

/// Implements the methods of [`petrel_net::Driver`] that no driver around another changes.
macro_rules! delegate_driver {
    ($field:tt) => {
        delegate! { $field:
            fn name(&self) -> &'static str;
            fn listen(&mut self, listener: Arc<OwnedFd>, id: ListenerId) -> io::Result<()>;
            fn pause_accept(&mut self, id: ListenerId);
            fn resume_accept(&mut self, id: ListenerId);
            fn unlisten(&mut self, id: ListenerId);
            fn adopt(&mut self, socket: OwnedFd) -> io::Result<Slot>;
            fn output(&mut self) -> Output;
            fn recycle(&mut self, output: Output);
            fn connections(&self) -> usize;
            fn waker(&self) -> Waker;
        }
    };
}

/// Implements the methods of [`petrel_commands::Host`] that are the same for all commands from a
/// file or a primary: they have no limits of length, and were checked elsewhere.
macro_rules! delegate_trusted_host {
    ($field:tt) => {
        delegate! { $field:
            fn admit_protected(&mut self, command: Command) -> Outcome;
            fn log(&mut self, level: u8, text: &str);
            fn discard(&mut self, cleared: Cleared);
        }

        fn as_any(&mut self) -> &mut dyn Any {
            &mut self.$field
        }

        fn string_len_max(&self) -> usize {
            u32::MAX as usize
        }

        fn query_buffer_limit(&self) -> usize {
            usize::MAX
        }

        fn leniency(&self) -> Leniency {
            Leniency { any_version: true, any_sum: false, any_count: true }
        }
    };
}
