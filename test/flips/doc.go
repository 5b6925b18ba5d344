// Package flips tests what becomes of a state folder whose database was damaged: one
// byte anywhere, or cut off. Each package that keeps such a file runs it on its own.
package flips
