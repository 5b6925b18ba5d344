package e2e

import (
	"debug/elf"
	endian "encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// alertsOfRewritten has a hub whose code the test overwrites while it runs. So the hub, and
// nothing else on the machine, sees a clock that was stepped; and its count stops as if it had
// a defect.
func alertsOfRewritten(t *testing.T) (map[string][]string, []trouble) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the instructions that it writes are those of amd64")
	}
	h := startHub(t)
	return map[string][]string{"rshub": {h.admin}}, []trouble{
		{[]string{"RshubClockStepped"}, func() { stepClock(t, h.cmd.Process.Pid, -10*time.Minute) }, nil},
		{[]string{"RshubStuck"}, func() {
			program, err := elf.Open(binary)
			must(t, err)
			defer func() { _ = program.Close() }()
			symbols, err := program.Symbols()
			must(t, err)
			const ret = 0xc3
			overwrite(t, h.cmd.Process.Pid, 0, find(t, symbols, "github.com/rshub/rshub/delivery.(*lagReporter).measure"), []byte{ret})
		}, nil},
	}
}

// stepClock changes the time of day that one process sees, as clock_settime changes it for the
// machine. Programs ask the kernel's vDSO for it: code that the kernel maps into each process.
// Here it is replaced by a system call, to whose result the step is added.
func stepClock(t *testing.T, pid int, step time.Duration) {
	t.Helper()
	base, end := mapping(t, pid, "[vdso]")
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	must(t, err)
	defer func() { _ = mem.Close() }()
	vdso, err := elf.NewFile(io.NewSectionReader(mem, base, end-base))
	must(t, err)
	symbols, err := vdso.DynamicSymbols()
	must(t, err)
	code := []byte{
		0xb8, syscall.SYS_CLOCK_GETTIME, 0, 0, 0, // mov eax, SYS_CLOCK_GETTIME
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
		0x75, 0x07, // jne ret
		0x48, 0x81, 0x06, // add qword [rsi], step
	}
	code = endian.LittleEndian.AppendUint32(code, uint32(int32(step/time.Second)))
	code = append(code, 0xc3) // ret
	overwrite(t, pid, base, find(t, symbols, "__vdso_clock_gettime"), code)
	code = []byte{ // the same for programs that ask with gettimeofday
		0xb8, syscall.SYS_GETTIMEOFDAY, 0, 0, 0, // mov eax, SYS_GETTIMEOFDAY
		0x0f, 0x05, // syscall
		0x48, 0x85, 0xff, // test rdi, rdi: is the time asked for?
		0x74, 0x07, // je ret
		0x48, 0x81, 0x07, // add qword [rdi], step
	}
	code = endian.LittleEndian.AppendUint32(code, uint32(int32(step/time.Second)))
	code = append(code, 0xc3) // ret
	overwrite(t, pid, base, find(t, symbols, "__vdso_gettimeofday"), code)
}

// find returns a function of a program: where it begins, and how long it is.
func find(t *testing.T, symbols []elf.Symbol, name string) elf.Symbol {
	t.Helper()
	for _, s := range symbols {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no function %s", name)
	return elf.Symbol{}
}

// mapping is where a process has something mapped.
func mapping(t *testing.T, pid int, name string) (base, end int64) {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, name+"\n") {
			_, err := fmt.Sscanf(line, "%x-%x", &base, &end)
			must(t, err)
			return base, end
		}
	}
	t.Fatalf("the process has no %s", name)
	return 0, 0
}

// overwrite replaces the first instructions of a function of a running process. The process
// stands still meanwhile, with no thread in that function, nor in the handler of a signal that interrupted it
// (Go's scheduler sends SIGURG, and blocks it in handlers).
func overwrite(t *testing.T, pid int, base int64, function elf.Symbol, code []byte) {
	t.Helper()
	at := base + int64(function.Value)
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_WRONLY, 0)
	must(t, err)
	defer func() { _ = mem.Close() }()
	eventually(t, 10*time.Second, func() error {
		must(t, syscall.Kill(pid, syscall.SIGSTOP))
		defer func() { must(t, syscall.Kill(pid, syscall.SIGCONT)) }()
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
		must(t, err)
		for _, name := range states {
			state, err := os.ReadFile(name) // "running", or the program counter last
			must(t, err)
			fields := strings.Fields(string(state))
			pc, err := strconv.ParseInt(fields[len(fields)-1], 0, 64)
			if err != nil {
				return fmt.Errorf("%s has %q", name, state)
			}
			if pc >= at && pc < at+int64(function.Size) {
				return fmt.Errorf("a thread is in %s", function.Name)
			}
			status, err := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
			must(t, err)
			if hasURG(t, status, "SigCgt") && hasURG(t, status, "SigBlk") {
				return fmt.Errorf("a thread handles a signal, and may go back to %s", function.Name)
			}
		}
		_, err = mem.WriteAt(code, at)
		must(t, err)
		return nil
	})
}

// hasURG reports whether SIGURG is in a set of signals in the status of a thread.
func hasURG(t *testing.T, status []byte, set string) bool {
	t.Helper()
	_, rest, _ := strings.Cut(string(status), set+":\t")
	line, _, _ := strings.Cut(rest, "\n")
	signals, err := strconv.ParseUint(line, 16, 64)
	must(t, err)
	return signals>>(syscall.SIGURG-1)&1 == 1
}
