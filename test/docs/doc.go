// Package docs holds what is written to what the program does: the README, docs/, the help
// texts, the names in logs, the exported API, and files and secrets as they stand on disk.
// Its tests run at the root of the repository.
package docs
