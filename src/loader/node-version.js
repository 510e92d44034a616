/**
 * If Sibyl does not support this version of Node, prints one line and ends the process. This module is loaded before
 * all others.
 */

const NODE_MAJOR = 22

const { node } = process.versions
if (Number(node.split('.')[0]) !== NODE_MAJOR) {
  // Only this major version is supported: the native modules are built for it, and older versions cannot run TypeScript
  // without a build.
  process.stderr.write(
    `sibyl: this is Node ${node}, but Sibyl needs Node ${NODE_MAJOR}: use npm start or npx node, which run that version\n`,
  )
  process.exit(1)
}
