//! A TUN device of the namespace that the calling thread is in: packets of IP as a file.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::ioctl::{Setter, ioctl, opcode};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Name of the device in its namespace.
pub const NAME: &str = "bed0";

/// Packets of IP without a header before them (`IFF_TUN | IFF_NO_PI`, linux/if_tun.h).
const FLAGS: i16 = 0x0001 | 0x1000;

/// `TUNSETIFF` takes the device's name and flags (`struct ifreq`).
const SET_INTERFACE: u32 = opcode::write::<i32>(b'T', 202);

#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: i16,
    rest: [u8; 22],
}

/// Puts the calling thread into a network namespace of its own, in which there is nothing.
pub fn enter_new_namespace() -> io::Result<()> {
    // SAFETY: the table of file descriptors stays shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Makes the device; it goes when the file is closed. Reads do not block.
pub fn open() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let file = options.open("/dev/net/tun")?;
    let mut name = [0; 16];
    name[..NAME.len()].copy_from_slice(NAME.as_bytes());
    let request = InterfaceRequest { name, flags: FLAGS, rest: [0; 22] };
    // SAFETY: the operation is one of this file's driver, and reads a `struct ifreq`, 40 bytes with
    // the flags behind the name.
    unsafe { ioctl(file.as_fd(), Setter::<SET_INTERFACE, InterfaceRequest>::new(request)) }?;
    Ok(file)
}
