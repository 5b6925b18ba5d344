package redistest

import "fmt"

// fields makes a map of a reply of names and values.
func fields(reply any) map[string]string {
	items, _ := reply.([]any)
	m := map[string]string{}
	for i := 0; i+1 < len(items); i += 2 {
		m[fmt.Sprint(items[i])] = fmt.Sprint(items[i+1])
	}
	return m
}

// linked reports whether every server has the role that masterOf gives it: nil
// for a master, else a replica with a link to the server returned.
func linked(servers []*Server, masterOf func(*Server) *Server) error {
	for _, s := range servers {
		role, err := s.Try("ROLE")
		if err != nil {
			return err
		}
		items, _ := role.([]any)
		want := masterOf(s)
		switch {
		case want == nil && items[0] == "master":
		case want != nil && items[0] == "slave" && items[2] == int64(want.port) && items[3] == "connected":
		default:
			return fmt.Errorf("%s is in the role %v", s.name, items)
		}
	}
	return nil
}
