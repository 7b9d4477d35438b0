//! Changes of vector sets, written as commands.

use crate::encode::Encoder;
use petrel_keyspace::VectorChange;

impl Encoder {
    /// A vector is written as it was given, so that the replica makes the same code of it; if that
    /// is not known any more, as the code tells. The form is named, RaBitQ's too: Redis, which does
    /// not know it, refuses the command, as it refuses the set in a copy.
    pub(crate) fn vector(&mut self, key: &[u8], change: VectorChange<'_>) {
        match change {
            VectorChange::Remove { name } => self.commands.command(&["VREM"], &[key, name]),
            VectorChange::SetAttributes { name, attributes } => {
                self.commands.command(&["VSETATTR"], &[key, name, attributes]);
            }
            VectorChange::Put { shape, name, vector, given, attributes, ef } => {
                let decoded: Vec<u8>;
                let vector = match given {
                    b"" => {
                        let components = shape.decode(vector).into_iter();
                        decoded = components.flat_map(f32::to_le_bytes).collect();
                        &decoded
                    }
                    given => given,
                };
                let mut digits = [itoa::Buffer::new(), itoa::Buffer::new(), itoa::Buffer::new()];
                let [of_dim, of_ef, of_links] = &mut digits;
                let mut args = vec![key];
                if shape.input_dim.is_some() {
                    args.extend([&b"REDUCE"[..], of_dim.format(shape.dim).as_bytes()]);
                }
                args.extend([&b"FP32"[..], vector, name, shape.quantisation.option().as_bytes()]);
                args.extend([&b"EF"[..], of_ef.format(ef).as_bytes()]);
                args.extend([&b"M"[..], of_links.format(shape.links).as_bytes()]);
                if let Some(attributes) = attributes {
                    args.extend([&b"SETATTR"[..], attributes]);
                }
                self.commands.command(&["VADD"], &args);
            }
        }
    }
}
