// Package logs writes the log of the three commands in one shape: JSON lines for programs, and
// lines for people on a terminal. The hub logs through zap; the Source and the Destination log
// through log/slog, because programs of others use their packages.
package logs
