//! The bytecode of a compiled function, read from what `lua_dump` writes: the parts that
//! [`crate::key_flow`] looks at.

/// Lua 5.1, little-endian; sizes of an int, a size, an instruction and a number, which is a float.
const HEADER: &[u8] = b"\x1bLua\x51\0\x01\x04\x08\x04\x08\0";

/// Functions within functions; the parser accepts fewer.
const DEPTH_MAX: usize = 250;

/// A function, without the functions around it.
#[derive(Debug)]
pub(crate) struct Proto {
    /// Variables of the functions around it that it uses.
    pub upvalues: u8,
    pub parameters: u8,
    pub is_vararg: bool,
    pub registers: u8,
    pub code: Vec<Instruction>,
    pub constants: Vec<Constant>,
    /// The functions that it creates.
    pub protos: Vec<Proto>,
}

/// A constant of a function.
#[derive(Debug, PartialEq)]
pub(crate) enum Constant {
    /// A string, or a whole number as the text that a command would be given.
    Text(Box<[u8]>),
    Other,
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instruction(u32);

/// Operation of an instruction, in the order of the numbers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Op {
    Move,
    LoadConstant,
    LoadBool,
    LoadNil,
    GetUpvalue,
    GetGlobal,
    GetTable,
    SetGlobal,
    SetUpvalue,
    SetTable,
    NewTable,
    Method,
    Arithmetic,
    Negate,
    Not,
    Length,
    Concatenate,
    Jump,
    Compare,
    Test,
    TestSet,
    Call,
    TailCall,
    Return,
    ForLoop,
    ForPrepare,
    GenericFor,
    SetList,
    Close,
    Closure,
    Vararg,
}

impl Instruction {
    pub fn op(self) -> Option<Op> {
        Some(match self.0 & 0x3f {
            0 => Op::Move,
            1 => Op::LoadConstant,
            2 => Op::LoadBool,
            3 => Op::LoadNil,
            4 => Op::GetUpvalue,
            5 => Op::GetGlobal,
            6 => Op::GetTable,
            7 => Op::SetGlobal,
            8 => Op::SetUpvalue,
            9 => Op::SetTable,
            10 => Op::NewTable,
            11 => Op::Method,
            12..=17 => Op::Arithmetic,
            18 => Op::Negate,
            19 => Op::Not,
            20 => Op::Length,
            21 => Op::Concatenate,
            22 => Op::Jump,
            23..=25 => Op::Compare,
            26 => Op::Test,
            27 => Op::TestSet,
            28 => Op::Call,
            29 => Op::TailCall,
            30 => Op::Return,
            31 => Op::ForLoop,
            32 => Op::ForPrepare,
            33 => Op::GenericFor,
            34 => Op::SetList,
            35 => Op::Close,
            36 => Op::Closure,
            37 => Op::Vararg,
            _ => return None,
        })
    }

    pub fn a(self) -> usize {
        (self.0 >> 6 & 0xff) as usize
    }

    pub fn b(self) -> usize {
        (self.0 >> 23) as usize
    }

    pub fn c(self) -> usize {
        (self.0 >> 14 & 0x1ff) as usize
    }

    /// A constant or a function by its number.
    pub fn number(self) -> usize {
        (self.0 >> 14) as usize
    }

    /// The place to which an instruction at `pc` jumps.
    pub fn target(self, pc: usize) -> Option<usize> {
        (pc + 1 + self.number()).checked_sub(0x1_ffff)
    }
}

impl Proto {
    /// The function of a dump; none if it is not one.
    pub fn read(dump: &[u8]) -> Option<Proto> {
        let mut reader = Reader(dump.strip_prefix(HEADER)?);
        let proto = reader.proto(DEPTH_MAX)?;
        reader.0.is_empty().then_some(proto)
    }

    /// The text of a constant.
    pub fn text(&self, constant: usize) -> Option<&[u8]> {
        match self.constants.get(constant)? {
            Constant::Text(text) => Some(text),
            Constant::Other => None,
        }
    }
}

/// The bytes that are left to read.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn int(&mut self) -> Option<usize> {
        usize::try_from(i32::from_le_bytes(self.array()?)).ok()
    }

    /// A string with the zero behind it; empty where there is none.
    fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(u64::from_le_bytes(self.array()?)).ok()?;
        let bytes = self.bytes(len)?;
        Some(&bytes[..len.saturating_sub(1)])
    }

    fn proto(&mut self, depth: usize) -> Option<Proto> {
        let depth = depth.checked_sub(1)?;
        self.string()?;
        let (_first, _last) = (self.int()?, self.int()?);
        let [upvalues, parameters, vararg, registers] = self.array()?;
        let code = self.int()?.checked_mul(4).and_then(|len| self.bytes(len))?;
        let word =
            |word: &[u8]| word.try_into().ok().map(|word| Instruction(u32::from_le_bytes(word)));
        let code = code.chunks_exact(4).map(word).collect::<Option<_>>()?;
        let constants = (0..self.int()?).map(|_| self.constant()).collect::<Option<_>>()?;
        let protos = (0..self.int()?).map(|_| self.proto(depth)).collect::<Option<_>>()?;
        self.debug_information()?;
        let is_vararg = vararg != 0;
        Some(Proto { upvalues, parameters, is_vararg, registers, code, constants, protos })
    }

    fn constant(&mut self) -> Option<Constant> {
        Some(match self.byte()? {
            0 => Constant::Other,
            1 => {
                self.byte()?;
                Constant::Other
            }
            3 => {
                let number = f64::from_le_bytes(self.array()?);
                let whole = number as i64;
                match whole as f64 == number && number.abs() < 1e15 {
                    true => Constant::Text(whole.to_string().into_bytes().into()),
                    false => Constant::Other,
                }
            }
            4 => Constant::Text(self.string()?.into()),
            _ => return None,
        })
    }

    fn debug_information(&mut self) -> Option<()> {
        let lines = self.int()?;
        self.bytes(lines.checked_mul(4)?)?;
        for _ in 0..self.int()? {
            self.string()?;
            self.bytes(8)?;
        }
        for _ in 0..self.int()? {
            self.string()?;
        }
        Some(())
    }
}
