package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// look describes the machine.
func look(ctx context.Context) string {
	return fmt.Sprintf("%s: %d cores of %s, %s of memory, Linux %s, %s, %s",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), valueIn("/proc/cpuinfo", "model name"), valueIn("/proc/meminfo", "MemTotal"),
		firstWord("/proc/sys/kernel/osrelease"), runtime.Version(), redis(ctx))
}

// valueIn returns the first value of a name in a file of lines.
func valueIn(file, name string) string {
	text, _ := os.ReadFile(file) //nolint:gosec // of the kernel
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstWord(file string) string {
	text, _ := os.ReadFile(file) //nolint:gosec // of the kernel
	if words := strings.Fields(string(text)); len(words) > 0 {
		return words[0]
	}
	return "unknown"
}

// loadAverage is how many processes have run or waited to, in the last minute.
func loadAverage() string { return firstWord("/proc/loadavg") }

// redis is the version of the Redis that the benchmarks start.
func redis(ctx context.Context) string {
	text, err := exec.CommandContext(ctx, "redis-server", "--version").Output()
	if err != nil {
		return "no redis-server"
	}
	_, version, _ := strings.Cut(string(text), "v=")
	version, _, _ = strings.Cut(version, " ")
	return "Redis " + version
}
