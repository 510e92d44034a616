/** Ends with one line on a Node that this program does not run on; the first thing that is loaded. */

const NODE_MAJOR = 22

const { node } = process.versions
if (Number(node.split('.')[0]) !== NODE_MAJOR) {
  // The native parts are built for one major version, and TypeScript is run as it is.
  process.stderr.write(
    `sibyl: this is Node ${node}, Sibyl needs Node ${NODE_MAJOR}: use npm start, which brings it\n`,
  )
  process.exit(1)
}
