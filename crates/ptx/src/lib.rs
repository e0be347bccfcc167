//! PTX lexer, parser and checker; fatbin and cubin reading.
