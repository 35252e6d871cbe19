package acklink_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/waterclock/waterclock/gateway/acklink"
)

func Example() {
	secrets := []string{"0123456789abcdef"}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	url := acklink.URL("https://wc.example.com", secrets, acklink.Link{
		DueID: "acme/rent@2026-11-20T09:00:00#1", Expires: noon.Add(time.Hour),
	})
	token := strings.TrimPrefix(url, "https://wc.example.com"+acklink.Path)

	link, err := acklink.Open(secrets, token, noon)
	fmt.Println(link.DueID, err)
	_, err = acklink.Open([]string{"another server's"}, token, noon)
	fmt.Println(err)
	// Output:
	// acme/rent@2026-11-20T09:00:00#1 <nil>
	// the link was not issued by this server
}
