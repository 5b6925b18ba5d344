package resourcesync

import (
	"bytes"
	"fmt"
	"io"
)

// folder is a Sink in memory.
type folder struct {
	files map[int]*file
	order []int // of the calls
	// Errors to answer with, by part.
	create, write, close map[int]error
}

type file struct {
	bytes.Buffer
	write, close error
	closed       int
	broken       error // what CloseWithError was called with
}

func (f *file) Write(b []byte) (int, error) {
	if f.write != nil {
		return 0, f.write
	}
	return f.Buffer.Write(b)
}

func (f *file) Close() error { f.closed++; return f.close }

func (f *file) CloseWithError(err error) error { f.closed++; f.broken = err; return nil }

func (d *folder) Create(part int) (io.WriteCloser, string, error) {
	if err := d.create[part]; err != nil {
		return nil, "", err
	}
	if d.files == nil {
		d.files = map[int]*file{}
	}
	f := &file{write: d.write[part], close: d.close[part]}
	d.files[part] = f
	d.order = append(d.order, part)
	return f, partURL(part), nil
}

func partURL(part int) string {
	if part == 0 {
		return site + "list.xml"
	}
	return fmt.Sprintf("%slist-%d.xml", site, part)
}
