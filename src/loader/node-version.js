/** Ends with one line on an unsupported Node version; the first module that is loaded. */

const NODE_MAJOR = 22

const { node } = process.versions
if (Number(node.split('.')[0]) !== NODE_MAJOR) {
  // The native modules are built for one major version, and TypeScript runs without a build.
  process.stderr.write(
    `sibyl: this is Node ${node}, Sibyl needs Node ${NODE_MAJOR}: npm start and npx node bring it\n`,
  )
  process.exit(1)
}
