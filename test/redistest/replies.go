package redistest

import "fmt"

// linked returns nil if every server has the role that masterOf says: it is a master if
// masterOf returns nil, and else a replica with a link to the server that masterOf returns.
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
			return fmt.Errorf("%s has the role %v", s.name, items)
		}
	}
	return nil
}
