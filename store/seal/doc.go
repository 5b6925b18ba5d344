// Package seal keeps secrets from being read where they are stored: with AES-256
// in GCM, under keys that the operator holds in a file (`--seal-key-file`). A
// store seals a secret when it writes a record and opens it when it reads one;
// all others see secrets as they are.
//
// What is sealed is bound to what it belongs to, so that one who can write to the
// store, and has no key, can't move a secret to another record. It does not keep
// them from putting an older sealed secret of the same record back, nor, as plain
// secrets are opened too, one of their own. Nonces are random, so a key is good
// for 2^32 secrets.
package seal
