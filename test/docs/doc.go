// Package docs checks that what is written is what the program does: the README, docs/, the help
// texts, the names in logs, the exported API, and files and secrets on disk.
// Its tests run at the root of the repository.
package docs
