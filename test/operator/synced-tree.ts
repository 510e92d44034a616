/** Syncs a folder while the syncs are recorded. */

import { syncTree } from '#operator/sync-tree.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('a folder is needed')
syncTree(folder)
