package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

// tick is how often the node looks at what there is.
const tick = 100 * time.Millisecond

// pause reports whether ctx went on for d.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// node is scheduler, kubelet and kube-proxy of two nodes.
type node struct {
	client kubernetes.Interface
	dir    string
	image  string // folder of the image
	names  *names

	pods     corelisters.PodLister
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister

	mu       sync.Mutex
	count    int
	running  map[types.UID]*pod
	forwards map[string]*forwarder
	failures []string
	began    time.Time
	did      *os.File // what it did, line by line
}

// startNode registers the nodes, and works until ctx ends.
func startNode(ctx context.Context, client kubernetes.Interface, dir string) (*node, error) {
	n := &node{client: client, dir: dir, image: filepath.Join(dir, "image"), running: map[types.UID]*pod{}, forwards: map[string]*forwarder{}, names: &names{all: map[string]string{}}, began: time.Now()}
	if err := n.makeImage(); err != nil {
		return nil, err
	}
	if err := n.names.serve(ctx); err != nil {
		return nil, err
	}
	var err error
	if n.did, err = os.Create(filepath.Join(dir, "node.log")); err != nil {
		return nil, err
	}
	for _, name := range []string{"one", "two"} {
		if err := n.register(ctx, name); err != nil {
			return nil, err
		}
	}
	f := informers.NewSharedInformerFactory(client, 0)
	n.pods, n.services, n.slices = f.Core().V1().Pods().Lister(), f.Core().V1().Services().Lister(), f.Discovery().V1().EndpointSlices().Lister()
	for _, i := range []cache.SharedIndexInformer{f.Core().V1().Pods().Informer(), f.Core().V1().Services().Informer(), f.Discovery().V1().EndpointSlices().Informer()} {
		go i.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
			return nil, ctx.Err()
		}
	}
	go n.schedule(ctx)
	go n.proxy(ctx)
	return n, n.logs(ctx)
}

// makeImage makes a folder with what the Dockerfile puts into the image.
func (n *node) makeImage() error {
	for _, dir := range []string{"etc/ssl/certs", "tmp", "var/lib/rshub", "usr/share/rshub"} {
		if err := os.MkdirAll(filepath.Join(n.image, dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"tmp", "var/lib/rshub"} {
		if err := os.Chown(filepath.Join(n.image, dir), 65532, 65532); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"etc/passwd": "rshub:x:65532:65532:rshub:/var/lib/rshub:/nonexistent\n", "etc/group": "rshub:x:65532:\n"} {
		if err := os.WriteFile(filepath.Join(n.image, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"rshub", "rspub", "rssub"} {
		program, err := os.ReadFile(filepath.Join(*image, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(n.image, name), program, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) register(ctx context.Context, name string) error {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("500")}
	made, err := n.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name, "disk": "ssd"}}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Status = corev1.NodeStatus{
		Capacity: capacity, Allocatable: capacity,
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Test", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}},
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: gateway}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: kubeletPort}},
	}
	_, err = n.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{})
	return err
}

func (n *node) number() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	return n.count
}

func (n *node) log(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = fmt.Fprintf(n.did, "%7.1fs %s\n", time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

// fail records what must not happen. check reports it.
func (n *node) fail(format string, args ...any) {
	n.log(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failures = append(n.failures, fmt.Sprintf(format, args...))
}

// check reports what must not happen and did.
func (n *node) check(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.failures {
		t.Errorf("node: %s", f)
	}
	n.failures = nil
}

// schedule binds pods to nodes, and runs them.
func (n *node) schedule(ctx context.Context) {
	for pause(ctx, tick) {
		all, err := n.pods.List(labels.Everything())
		if err != nil {
			n.fail("listing pods: %v", err)
			return
		}
		for _, p := range all {
			switch {
			case p.Spec.NodeName == "" && p.DeletionTimestamp == nil:
				n.bind(ctx, p)
			case p.Spec.NodeName != "" && n.running[p.UID] == nil:
				n.start(ctx, p)
			}
		}
	}
}

// bind gives a pod the node that has fewer pods, once its claims are bound.
func (n *node) bind(ctx context.Context, p *corev1.Pod) {
	for key, value := range p.Spec.NodeSelector {
		if key != "disk" || value != "ssd" {
			return
		}
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		c, err := n.client.CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, v.PersistentVolumeClaim.ClaimName, metav1.GetOptions{})
		if err != nil || c.Status.Phase != corev1.ClaimBound {
			return
		}
	}
	to := []string{"one", "two"}[n.number()%2]
	err := n.client.CoreV1().Pods(p.Namespace).Bind(ctx, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: to}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && ctx.Err() == nil {
		n.fail("binding %s: %v", p.Name, err)
	}
}

func (n *node) start(ctx context.Context, spec *corev1.Pod) {
	number := n.number()
	p := &pod{node: n, spec: spec.DeepCopy(), dir: filepath.Join(n.dir, "pods", string(spec.UID)), ip: fmt.Sprintf("10.244.%d.%d", 1+number/250, 1+number%250), state: map[string]*state{}}
	n.mu.Lock()
	n.running[spec.UID] = p
	n.mu.Unlock()
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		n.fail("%v", err)
		return
	}
	n.log("%s/%s starts at %s", spec.Namespace, spec.Name, p.ip)
	go func() {
		p.run(ctx)
		n.log("%s/%s is over", spec.Namespace, spec.Name)
	}()
}

// pod is the pod of a name, as it runs.
func (n *node) pod(namespace, name string) *pod {
	p, err := n.pods.Pods(namespace).Get(name)
	if err != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.running[p.UID]
}

// proxy leads from Services to pods. It uses what it saw a second ago.
func (n *node) proxy(ctx context.Context) {
	var before map[string][]string
	for pause(ctx, time.Second) {
		for addr, targets := range before {
			n.forwardTo(ctx, addr, targets)
		}
		n.mu.Lock()
		for addr, f := range n.forwards {
			if before != nil && before[addr] == nil {
				_ = f.listener.Close()
				delete(n.forwards, addr)
			}
		}
		n.mu.Unlock()
		before = n.targets()
	}
}

func (n *node) forwardTo(ctx context.Context, addr string, targets []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f := n.forwards[addr]
	if f == nil {
		var err error
		if f, err = forward(ctx, addr); err != nil {
			n.failures = append(n.failures, err.Error())
			return
		}
		n.forwards[addr] = f
	}
	f.set(targets)
}

// targets are the ready pods behind the address of each port of each Service.
func (n *node) targets() map[string][]string {
	all := map[string][]string{}
	services, _ := n.services.List(labels.Everything())
	for _, s := range services {
		if s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			continue
		}
		n.names.set(s.Name+"."+s.Namespace+".svc.cluster.local.", s.Spec.ClusterIP)
		found, _ := n.slices.EndpointSlices(s.Namespace).List(labels.SelectorFromSet(labels.Set{"kubernetes.io/service-name": s.Name}))
		for _, port := range s.Spec.Ports {
			at := net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
			all[at] = []string{}
			for _, slice := range found {
				for _, of := range slice.Ports {
					if of.Name == nil || *of.Name != port.Name {
						continue
					}
					for _, e := range slice.Endpoints {
						if e.Conditions.Ready == nil || *e.Conditions.Ready {
							all[at] = append(all[at], net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*of.Port))))
						}
					}
				}
			}
			slices.Sort(all[at])
		}
	}
	return all
}

func (n *node) logFile(namespace, name string) string {
	return filepath.Join(n.dir, "log-"+namespace+"-"+name)
}

// logs serves what containers printed, to the API server.
func (n *node) logs(ctx context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, n.logFile(r.PathValue("namespace"), r.PathValue("pod")))
	})
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(gateway, strconv.Itoa(kubeletPort)))
	if err != nil {
		return err
	}
	go func() {
		_ = http.ServeTLS(l, mux, filepath.Join(n.dir, "server.crt"), filepath.Join(n.dir, "server.key"))
	}()
	return nil
}

// lines are those of the log of a namespace's pods that hold a text.
func (n *node) lines(namespace, text string) string {
	var out strings.Builder
	files, _ := filepath.Glob(n.logFile(namespace, "*"))
	for _, file := range files {
		all, _ := os.ReadFile(file)
		for line := range strings.Lines(string(all)) {
			if strings.Contains(line, text) {
				out.WriteString(line)
			}
		}
	}
	return out.String()
}

// printed is what the pods of a namespace printed, the last of it, and what the node did with them.
func (n *node) printed(namespace string) string {
	var out strings.Builder
	files, _ := filepath.Glob(n.logFile(namespace, "*"))
	for _, file := range append(files, filepath.Join(n.dir, "node.log")) {
		text, _ := os.ReadFile(file)
		fmt.Fprintf(&out, "--- %s\n%s\n", filepath.Base(file), text[max(0, len(text)-700):])
	}
	return out.String()
}
