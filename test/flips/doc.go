// Package flips tests what becomes of a state folder whose database is damaged: one byte is changed
// anywhere, or the end is cut off. Each package with such a file runs it.
package flips
