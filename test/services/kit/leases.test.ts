import assert from 'node:assert/strict'
import { it } from 'node:test'
import { loadSettings } from '#config/settings.ts'
import type { ThreadData } from '#config/thread-data.ts'
import { makeThreadContext } from '#services/kit/kit.ts'
import { makeLeases } from '#services/kit/leases.ts'
import { openDatabase } from '#store/open-database.ts'
import { onServerDatabase } from '../../support/databases.ts'
import { eventually } from '../../support/eventually.ts'

await onServerDatabase('a thread takes leases', (databases) => {
  it('64 leases taken at the start are logged in one line, and a later lease in another line', async (t) => {
    const url = await databases.migrated()
    const settings = loadSettings({ SIBYL_DATABASE_URL: url })
    const data = { name: 'store', settings, isTerminal: false } as ThreadData
    const lines: { fields: object; message: string }[] = []
    const kit = makeThreadContext(data)
    const info = (fields: object, message: string) => void lines.push({ fields, message })
    const leases = makeLeases(data, { ...kit, log: { ...kit.log, info } }, { openDatabase })
    t.after(async () => {
      kit.quiet()
      await leases.close()
      databases.giveBack(url)
    })
    const roles = Array.from({ length: 64 }, (_, partition) => `projector/${partition}`)
    await Promise.all(roles.map((role) => leases.hold(role, () => {})))
    await eventually(() => assert.equal(lines.length, 1))
    assert.equal(lines[0]?.message, 'this node has taken 64 leases')
    assert.deepEqual(new Set(lines.flatMap(rolesIn)), new Set(roles))
    await leases.hold('relayer/1', () => {})
    await eventually(() => assert.equal(lines.length, 2))
    assert.deepEqual(lines.at(-1), {
      fields: { leases: { 'relayer/1': 1 } },
      message: 'this node has taken the lease of relayer/1',
    })
  })
})

function rolesIn({ fields }: { readonly fields: object }): string[] {
  return Object.keys('leases' in fields ? (fields.leases as object) : {})
}
