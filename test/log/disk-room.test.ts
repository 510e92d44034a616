/**
 * A full disk, on a small real file system: which commands are refused, which still work, and how the exchange
 * recovers.
 */

import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statfsSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createLog } from '#log/log-folder.ts'
import { isDiskFull, openDiskRoom } from '#log/partition/disk-room.ts'
import { signed } from '../services/market/market-fixture.ts'
import { type Command, marketId, open, startHost } from '../services/market/thread-fixture.ts'
import { buy, hashNamed } from '../support/orders.ts'

const MIB = 1024 * 1024

const place = (name: string): Command => ({
  type: 'PlaceOrder',
  message: { order: signed(buy('YES').at(0.2).named(name), marketId(1)) },
})
const cancel = (name: string): Command => ({
  type: 'CancelOrder',
  message: { marketId: marketId(1), orderHash: hashNamed(name), side: 0 },
})

/** Fills the file system until this many bytes are left. */
function fill(folder: string, leaving: number): void {
  const { bavail, bsize } = statfsSync(folder)
  const path = join(folder, 'filler')
  const before = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  writeFileSync(path, Buffer.alloc(before + bavail * bsize - leaving))
}

test('while the disk is full, the exchange refuses orders but accepts cancels, until there is room again', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sibyl-full-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=24m', 'tmpfs', folder])
  if (mounted.status !== 0) {
    rmSync(folder, { recursive: true })
    t.skip('a small file system can be mounted by root only')
    return
  }
  try {
    createLog(folder, 1)
    const reserve = { name: 'reserve', reserveBytes: 2 * MIB, freeBytesMin: 4 * MIB }
    const room = openDiskRoom({ folder: join(folder, 'log'), ...reserve })
    const host = startHost(folder, { partitions: 1, room })
    await host.run(open(1))
    const names = Array.from({ length: 40 }, (_, n) => `o${n}`)
    await host.run(...names.map(place))
    assert.equal(room.look(), false)

    // With little room left, orders are refused. So no append fails, and the log need not be reopened.
    fill(folder, 2 * MIB)
    assert.equal(room.look(), true)
    const refused = { rejected: 'STORAGE_FULL' }
    const [again, fresh, cancelled] = await host.run(place('o1'), place('new'), cancel('o0'))
    assert.equal((again as { duplicate?: true }).duplicate, true)
    assert.deepEqual(fresh, refused)
    assert.deepEqual(cancelled, { status: 'cancelled', orderHash: hashNamed('o0') })
    assert.deepEqual(await host.run(open(2)), [refused])

    // The disk is completely full, so a cancel fails. Then the reserve file is deleted to make room, and the next
    // cancels succeed.
    fill(folder, 0)
    let failed: unknown
    let n = 1
    for (; failed === undefined; n++) {
      fill(folder, 0)
      failed = await host.run(cancel(names[n]!)).then(
        () => undefined,
        (error) => error,
      )
    }
    assert(isDiskFull(failed), String(failed))
    room.spend()
    assert(host.recover(), 'it opens, in the room of the reserve')
    room.look()
    assert(room.isFull)
    for (const name of names.slice(n - 1)) {
      assert.deepEqual(await host.run(cancel(name)), [
        { status: 'cancelled', orderHash: hashNamed(name) },
      ])
    }
    assert.deepEqual(await host.run(place('new')), [refused])

    truncateSync(join(folder, 'filler'), 0)
    assert.equal(room.look(), true)
    assert(!room.isFull)
    assert.equal(statSync(join(folder, 'log', 'reserve')).size, 2 * MIB)
    assert.equal((await host.run(place('new')))[0] instanceof Object, true)
    assert.equal(host.resting(), 1)
    await host.stop()
    const later = startHost(folder, { partitions: 1 })
    assert.equal(later.resting(), 1, 'and the log has all of it')
    await later.stop()
  } finally {
    spawnSync('umount', ['-l', folder])
    rmSync(folder, { recursive: true, force: true })
  }
})
