package history

import (
	"iter"
	"runtime"
	"sync"
)

// writers are goroutines that give streams their turns. There are as many as processors, and others beside them that
// wait for a reader or for the store. So an event for 10,000 streams wakes up a few goroutines, and not
// 10,000. There are none while no stream has anything to do. They may be shared between goroutines.
type writers struct {
	most int // how many there are that do not wait

	mu          sync.Mutex
	running     int     // those that do not wait
	first, last *stream // the streams whose turn is due, in the order in which they came
}

// turnState says where a stream stands among those that have turns. Writers.mu guards it.
type turnState int

const (
	resting  turnState = iota
	due                // it waits for its turn
	writing            // it has its turn
	dueAgain           // it has its turn, and gets another one
)

func newWriters() *writers { return &writers{most: runtime.GOMAXPROCS(0)} }

// ring gives each of some streams a turn that begins after the call.
func (w *writers) ring(streams iter.Seq[*stream]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for st := range streams {
		switch st.state {
		case resting:
			w.push(st)
		case writing:
			st.state = dueAgain
		case due, dueAgain:
		}
	}
}

func (w *writers) push(st *stream) {
	st.state = due
	if w.last == nil {
		w.first = st
	} else {
		w.last.behind = st
	}
	w.last = st
	w.start()
}

// start starts a goroutine if there is work for another one.
func (w *writers) start() {
	if w.first != nil && w.running < w.most {
		w.running++
		go w.work()
	}
}

func (w *writers) work() {
	for st := w.next(); st != nil; st = w.next() {
		w.after(st, st.turn())
	}
}

// next returns the stream whose turn it is. Nil: this goroutine is not needed any more.
func (w *writers) next() (st *stream) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if st = w.first; st == nil || w.running > w.most {
		w.running--
		return nil
	}
	if w.first = st.behind; w.first == nil {
		w.last = nil
	}
	st.behind, st.state = nil, writing
	return st
}

// after ends the turn of a stream. More says that it needs another one.
func (w *writers) after(st *stream, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more || st.state == dueAgain {
		w.push(st)
	} else {
		st.state = resting
	}
}

// rest lets another goroutine work while the caller, which has the turn of a stream, waits for something. The caller calls
// resume after that.
func (w *writers) rest() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.start()
}

func (w *writers) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
}
