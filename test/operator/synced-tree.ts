/** Calls `syncTree` on a folder. `sync-tree.test.ts` runs this program and records its calls of fsync. */

import { syncTree } from '#operator/sync-tree.ts'

const [folder] = process.argv.slice(2)
if (folder === undefined) throw new Error('a folder is needed')
syncTree(folder)
