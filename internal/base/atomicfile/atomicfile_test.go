package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// names are the files in a folder.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		out = append(out, f.Name())
	}
	return out
}

// A file is replaced whole or not at all, whatever fails, and nothing is left beside it.
func TestWrite(t *testing.T) {
	wrong := errors.New("wrong")
	for what, o := range map[string]Options{
		"durable":    {},
		"file only":  {Durability: FileOnly, Temp: "a.*.part"},
		"not synced": {Durability: Volatile},
		"group":      {Prepare: func(f *os.File) error { return f.Chmod(0o640) }},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "a")
			want := func(content string) {
				t.Helper()
				got, err := os.ReadFile(name)
				if left := names(t, dir); err != nil || string(got) != content || len(left) != 1 {
					t.Errorf("%q, %v, beside %q", got, err, left)
				}
			}
			if err := os.WriteFile(name+Suffix, []byte("what a killed process left, and longer"), 0o600); err != nil || o.Temp != "" {
				_ = os.Remove(name + Suffix)
			}
			for _, content := range []string{"one", "", "another"} {
				if err := WriteBytes(name, o, []byte(content)); err != nil {
					t.Fatal(err)
				}
				want(content)
			}
			mode := os.FileMode(0o600)
			if o.Prepare != nil {
				mode = 0o640
			}
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			err := Write(name, o, func(w io.Writer) error {
				_, _ = w.Write([]byte("half"))
				return wrong
			})
			if !errors.Is(err, wrong) {
				t.Errorf("while it is written: %v", err)
			}
			want("another")
			refuse := o
			refuse.Prepare = func(*os.File) error { return wrong }
			if err := WriteBytes(name, refuse, []byte("x")); !errors.Is(err, wrong) {
				t.Errorf("before it is written: %v", err)
			}
			want("another")
			full := filepath.Join(dir, "folder", "b")
			if err := WriteBytes(full, o, nil); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("in a folder that is not there: %v", err)
			}
			if err := errors.Join(os.Remove(name), os.MkdirAll(filepath.Join(name, "x"), 0o700)); err != nil {
				t.Fatal(err)
			}
			if err := WriteBytes(name, o, nil); err == nil || len(names(t, dir)) != 1 {
				t.Errorf("over a folder: %v, beside %q", err, names(t, dir))
			}
		})
	}
}

// What a command prints goes into a device or a pipe, which stays one, and to the end of a link.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	pipe, file, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	for _, name := range []string{pipe, file, link, file} {
		err := Output(name, func(w io.Writer) error {
			_, err := io.WriteString(w, name)
			return err
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if name == pipe {
			if text := <-read; text != pipe {
				t.Errorf("%q came through the pipe", text)
			}
		} else if text, err := os.ReadFile(file); err != nil || string(text) != name {
			t.Errorf("%s: the file has %q, %v", name, text, err)
		}
	}
	for name, want := range map[string]os.FileMode{pipe: os.ModeNamedPipe, file: 0, link: os.ModeSymlink} {
		if info, err := os.Lstat(name); err != nil || info.Mode().Type() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	write := func(io.Writer) error { return errors.New("it was called") }
	if err := Output(dir, write); !errors.Is(err, syscall.EISDIR) || len(names(t, dir)) != 3 {
		t.Errorf("over a folder: %v, beside %q", err, names(t, dir))
	}
}

// Nothing of a file without a name is in its folder.
func TestNameless(t *testing.T) {
	dir := t.TempDir()
	f, err := Nameless(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("text"); err != nil {
		t.Error(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v in the folder, %v", files, err)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Nameless(dir + "/none"); err == nil {
		t.Error("a folder that is not there is none")
	}
}
