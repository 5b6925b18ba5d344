package source

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rshub/rshub/internal/base/nearest"
	"github.com/rshub/rshub/internal/base/yamlfile"
	"github.com/rshub/rshub/resourcesync"
)

// relations are those that rules may give an entry: all of section 14 of the core, and original of
// RFC 7089, by the key that stands for each in a file of rules.
var relations = map[string]string{
	"duplicate": "duplicate", "alternate": "alternate", "canonical": "canonical", "patch": patchRel,
	"describedby": "describedby", "describes": "describes", "profile": "profile",
	"original": "original", "memento": "memento", "timegate": "timegate", "timemap": "timemap",
	"collection": "collection", "via": "via",
}

// encodings are the content codings of RFC 9110 and its registry that files are stored in.
var encodings = []string{"br", "compress", "deflate", "gzip", "zstd"}

const (
	mostRules = 1000
	// mostLinks is how many links the rules may have. So no entry has more than readers accept.
	mostLinks = 500
)

// ReadRules reads a file of rules. See ParseRules.
func ReadRules(path string) (*Rules, error) {
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, fmt.Errorf("the rules: %w", err)
	}
	return ParseRules(path, data)
}

// ParseRules reads rules; docs/publisher.md describes them. The name of the file is for the
// messages: the error joins one for each mistake, with file and line.
func ParseRules(name string, data []byte) (*Rules, error) {
	p := rulesParser{name: name, rules: &Rules{text: string(data)}}
	root, err := yamlfile.Parse(name, data)
	if err != nil || root == nil {
		return p.rules, err
	}
	errs := yamlfile.Keys(name, root, map[string]func(*yaml.Node) []error{
		"address": p.address, "resources": p.resources,
		"set":    func(n *yaml.Node) []error { return p.whole(n, &p.rules.set) },
		"source": func(n *yaml.Node) []error { return p.whole(n, &p.rules.source) },
	}, func(do func(*yaml.Node) []error, n *yaml.Node, _ string) error {
		p.errs = append(p.errs, do(n)...)
		return nil
	})
	if p.links > mostLinks || len(p.rules.resources) > mostRules {
		errs = append(errs, fmt.Errorf("%s: there are %d rules with %d links; %d rules with %d links are possible", name, len(p.rules.resources), p.links, mostRules, mostLinks))
	}
	return p.rules, errors.Join(append(errs, p.errs...)...)
}

// rulesParser is the reading of one file.
type rulesParser struct {
	name  string
	rules *Rules
	links int
	errs  []error
}

// at adds the place to an error.
func (p *rulesParser) at(n *yaml.Node, err error) error {
	return fmt.Errorf("%s:%d: %w", p.name, n.Line, err)
}

// address reads which URLs are shorter than the paths.
func (p *rulesParser) address(n *yaml.Node) []error {
	p.rules.addressLine = fmt.Sprintf("%s:%d", p.name, n.Line)
	return yamlfile.Keys(p.name, n, map[string]func([]string) error{
		"index": func(names []string) error {
			p.rules.index = names
			return eachOf(names, func(s string) bool { return validPath(s) && !strings.Contains(s, "/") }, "is not the name of a file, such as index.html")
		},
		"drop": func(ext []string) error {
			p.rules.drop = ext
			return eachOf(ext, func(s string) bool { return len(s) > 1 && s[0] == '.' && !strings.Contains(s, "/") }, "is not an extension, such as .html")
		},
	}, texts)
}

// texts reads the values of a key.
func texts(set func([]string) error, n *yaml.Node, _ string) error {
	text, err := yamlfile.Scalars(n)
	if err != nil {
		return err
	}
	return set(text)
}

func eachOf(all []string, ok func(string) bool, otherwise string) error {
	for _, s := range all {
		if !ok(s) {
			return fmt.Errorf("%q %s", s, otherwise)
		}
	}
	return nil
}

// whole reads the links of the set or of the Source.
func (p *rulesParser) whole(n *yaml.Node, links *[]resourceLink) []error {
	return yamlfile.Keys(p.name, n, map[string]bool{"describedby": true}, func(_ bool, n *yaml.Node, _ string) error {
		var err error
		if *links, err = p.linksAt("describedby", n); err != nil {
			return err
		}
		for i := range *links {
			if !(*links)[i].to.constant() {
				return errNoURL
			}
		}
		return nil
	})
}

// resources reads the list of rules.
func (p *rulesParser) resources(n *yaml.Node) (errs []error) {
	if n.Kind != yaml.SequenceNode {
		return []error{p.at(n, errors.New("resources has to be a list; begin each rule with `- for:`"))}
	}
	for _, item := range n.Content {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		r, wrong := p.resource(item)
		p.rules.resources, errs = append(p.rules.resources, r), append(errs, wrong...)
	}
	return errs
}

// resource reads one rule.
func (p *rulesParser) resource(n *yaml.Node) (r resourceRule, errs []error) {
	type reader func(*yaml.Node) error
	scalar := func(set func([]string) error) reader {
		return func(n *yaml.Node) error { return texts(set, n, "") }
	}
	keys := map[string]reader{
		"for":      scalar(func(patterns []string) (err error) { r.selects, err = parseRules(patterns); return err }),
		"type":     scalar(one(&r.mediaType)),
		"encoding": scalar(one(&r.encoding)),
		"sidecar": scalar(func(suffixes []string) error {
			r.sidecars = suffixes
			return eachOf(suffixes, func(s string) bool { return s != "" && !strings.Contains(s, "/") }, "is not the end of a name, such as .dc.xml")
		}),
	}
	for key := range relations {
		keys[key] = func(n *yaml.Node) error {
			links, err := p.linksAt(relations[key], n)
			r.links = append(r.links, links...)
			return err
		}
	}
	errs = yamlfile.Keys(p.name, n, keys, func(read reader, n *yaml.Node, _ string) error { return read(n) })
	p.links += len(r.links) + 2*len(r.sidecars)
	if len(errs) > 0 {
		return r, errs
	}
	if err := r.check(); err != nil {
		errs = append(errs, p.at(n, err))
	}
	r.line, r.used = fmt.Sprintf("%s:%d", p.name, n.Line), new(atomic.Bool) // the check does not count
	return r, errs
}

// one reads a key that has one value.
func one(field *string) func([]string) error {
	return func(text []string) error {
		if len(text) != 1 {
			return errors.New("it must be one value, not a list")
		}
		*field = text[0]
		return nil
	}
}

// linksAt reads the links of one relation: a template, a mapping, or a list of these.
func (p *rulesParser) linksAt(rel string, n *yaml.Node) (links []resourceLink, err error) {
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		items = n.Content
	}
	for _, item := range items {
		if item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		l := resourceLink{rel: rel, mirror: rel == "duplicate"}
		href := ""
		if item.Kind == yaml.MappingNode {
			err = errors.Join(yamlfile.Keys(p.name, item, l.keys(&href), texts)...)
		} else {
			err = texts(one(&href), item, "")
		}
		if err == nil {
			l.to, err = parseTarget(href)
		}
		if err != nil {
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

// keys are the keys of a link.
func (l *resourceLink) keys(href *string) map[string]func([]string) error {
	return map[string]func([]string) error{
		"href": one(href),
		"type": one(&l.mediaType),
		"pri": func(text []string) (err error) {
			if l.pri, err = strconv.Atoi(strings.Join(text, " ")); err != nil || resourcesync.CheckPri(int64(l.pri)) != nil {
				return errors.New("it must be a number from 1, the best, to 999999")
			}
			return nil
		},
		"modified": func(text []string) error {
			if l.lastmod = slices.Equal(text, []string{"lastmod"}); !l.lastmod {
				return errors.New("it can only be lastmod: the link gets the time of the resource")
			}
			return nil
		},
	}
}

// check checks a rule as a whole: an entry with all that it gives has to be one that a
// document may have.
func (r *resourceRule) check() error {
	if len(r.selects) == 0 {
		return errors.New("the rule lacks `for:`, the patterns of the paths that it is for")
	}
	if r.mediaType == "" && r.encoding == "" && len(r.sidecars)+len(r.links) == 0 {
		return errors.New("the rule gives nothing; write `type:`, `encoding:`, `sidecar:` or a link such as `describedby:` beside `for:`")
	}
	if r.encoding != "" && !slices.Contains(encodings, r.encoding) {
		return fmt.Errorf("encoding: %q is not a content coding that files are stored in%s", r.encoding, cmp.Or(nearest.DidYouMean(r.encoding, encodings), "; there are "+strings.Join(encodings, ", ")))
	}
	rs := &Rules{resources: []resourceRule{*r}}
	x := Resource{Path: "folder/name", MediaType: r.mediaType, Encoding: r.encoding, ModTime: time.Unix(0, 0), SHA256: [32]byte{1}, MD5: [16]byte{1}}
	n := neighbours{
		get: func(path string) (*Resource, error) { return &Resource{Path: path}, nil },
		url: func(r *Resource) string { return "https://example.org/" + EscapePath(r.Path) },
	}
	loc, whole := n.url(&x), x
	for i := range r.links {
		of := x
		for _, part := range r.links[i].to.parts {
			of.Path += part.less
		}
		l, ok, err := rs.link(&r.links[i], &of, loc, n)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%s leads nowhere: no path ends with all that its placeholders remove, or it is the resource itself", r.links[i].rel)
		}
		whole.Links = append(whole.Links, l)
	}
	return newEntryCheck().check(&Given{Resource: whole})
}

// Relations are the keys of links in a file of rules, in order.
func Relations() []string { return slices.Sorted(maps.Keys(relations)) }
