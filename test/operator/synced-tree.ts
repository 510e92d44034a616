/** Syncs a folder, while it is recorded what is synced. */

import { syncTree } from '#operator/sync-tree.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('a folder is needed')
syncTree(folder)
