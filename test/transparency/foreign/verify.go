// Verifies a log with the packages of Go's checksum database: the checkpoint's signature, every entry's inclusion,
// and consistency with an earlier checkpoint.
//
//	go run verify.go <prefix of the log> <verifier key> [<file with an earlier checkpoint>]
package main

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const height = 8

type reader struct{ prefix string }

func (r reader) Height() int { return height }

func (r reader) SaveTiles([]tlog.Tile, [][]byte) {}

func (r reader) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	var data [][]byte
	for _, tile := range tiles {
		// The path of the checksum database has the height in it.
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/", height), "tile/", 1)
		bytes, err := get(r.prefix + "/" + path)
		if err != nil {
			return nil, err
		}
		data = append(data, bytes)
	}
	return data, nil
}

func get(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != 200 {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

func open(checkpoint []byte, verifier note.Verifier) (tlog.Tree, error) {
	signed, err := note.Open(checkpoint, note.VerifierList(verifier))
	if err != nil {
		return tlog.Tree{}, err
	}
	lines := strings.Split(signed.Text, "\n")
	if lines[0] != verifier.Name() {
		return tlog.Tree{}, fmt.Errorf("the checkpoint is of %s", lines[0])
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil {
		return tlog.Tree{}, err
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil {
		return tlog.Tree{}, err
	}
	tree := tlog.Tree{N: size}
	copy(tree.Hash[:], root)
	return tree, nil
}

func entries(prefix string, size int64) ([][]byte, error) {
	var all [][]byte
	for n := int64(0); n*256 < size; n++ {
		tile := tlog.Tile{H: height, L: 0, N: n, W: 256}
		if size < (n+1)*256 {
			tile.W = int(size - n*256)
		}
		path := strings.Replace(tile.Path(), fmt.Sprintf("tile/%d/0/", height), "tile/entries/", 1)
		bundle, err := get(prefix + "/" + path)
		if err != nil {
			return nil, err
		}
		for len(bundle) >= 2 {
			length := int(binary.BigEndian.Uint16(bundle))
			all = append(all, bundle[2:2+length])
			bundle = bundle[2+length:]
		}
	}
	return all, nil
}

func run() error {
	prefix, key := os.Args[1], os.Args[2]
	verifier, err := note.NewVerifier(key)
	if err != nil {
		return err
	}
	checkpoint, err := get(prefix + "/checkpoint")
	if err != nil {
		return err
	}
	tree, err := open(checkpoint, verifier)
	if err != nil {
		return err
	}
	hashes := tlog.TileHashReader(tree, reader{prefix})
	all, err := entries(prefix, tree.N)
	if err != nil {
		return err
	}
	if int64(len(all)) != tree.N {
		return fmt.Errorf("%d entries, the checkpoint has %d", len(all), tree.N)
	}
	for n, entry := range all {
		proof, err := tlog.ProveRecord(tree.N, int64(n), hashes)
		if err != nil {
			return err
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, int64(n), tlog.RecordHash(entry)); err != nil {
			return fmt.Errorf("entry %d: %v", n, err)
		}
	}
	if len(os.Args) > 3 {
		text, err := os.ReadFile(os.Args[3])
		if err != nil {
			return err
		}
		older, err := open(text, verifier)
		if err != nil {
			return err
		}
		proof, err := tlog.ProveTree(tree.N, older.N, hashes)
		if err != nil {
			return err
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, older.N, older.Hash); err != nil {
			return err
		}
	}
	fmt.Printf("ok %d\n", tree.N)
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
