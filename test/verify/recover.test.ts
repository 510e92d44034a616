import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { recoverAddress } from 'viem'
import { sign } from 'viem/accounts'
import { loadKeccak, portableKeccak } from '#verify/keccak.ts'
import { loadRecovery, makeRecoverer, nativeRecovery, wasmRecovery } from '#verify/recover.ts'
import { systemRecovery } from '#verify/system-recovery.ts'
import { servicesRequired } from '../support/required-services.ts'
import { bytesOf, CURVE_ORDER, signatureOf } from './signed-order.ts'

const wasm = makeRecoverer(await wasmRecovery(), portableKeccak)
const fast = makeRecoverer(await loadRecovery(), loadKeccak())
/** All that are here. */
const engines = [systemRecovery(), nativeRecovery(), await wasmRecovery()].filter(
  (engine) => engine !== undefined,
)
const recoverers = engines.map((engine) => makeRecoverer(engine, loadKeccak()))

const digests = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => `0x${Buffer.from(bytes).toString('hex')}` as const)
const keys = fc
  .bigInt({ min: 1n, max: CURVE_ORDER - 1n })
  .map((key) => `0x${key.toString(16).padStart(64, '0')}` as const)

test('every implementation of signature recovery returns the same signer as the library viem', async () => {
  await fc.assert(
    fc.asyncProperty(keys, digests, async (privateKey, hash) => {
      const signature = await sign({ hash, privateKey, to: 'hex' })
      const expected = (await recoverAddress({ hash, signature })).toLowerCase()
      for (const recover of recoverers) assert.equal(recover(bytesOf(hash), signature), expected)
    }),
    { numRuns: 60 },
  )
})

test('a signature is refused if it contains a non-ASCII character whose low byte is a hex digit', async () => {
  const hash = `0x${'42'.repeat(32)}` as const
  const signature = await sign({ hash, privateKey: `0x${'1'.repeat(64)}`, to: 'hex' })
  assert.equal(typeof fast(bytesOf(hash), signature), 'string')
  for (let at = 2; at < signature.length; at++) {
    for (const high of [0x01, 0x22, 0xff]) {
      const strange = String.fromCharCode((high << 8) | signature.charCodeAt(at))
      const forged = signature.slice(0, at) + strange + signature.slice(at + 1)
      assert.match((fast(bytesOf(hash), forged) as { flaw: string }).flaw, /130 hex digits/)
    }
  }
})

test('the implementations of signature recovery agree for random bytes', () => {
  const words = fc.oneof(
    fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
    fc.bigInt({ min: 1n, max: CURVE_ORDER / 2n }),
    fc.constantFrom(0n, 1n, CURVE_ORDER / 2n, CURVE_ORDER / 2n + 1n, CURVE_ORDER - 1n, CURVE_ORDER),
  )
  fc.assert(
    fc.property(digests, words, words, fc.integer({ min: 0, max: 30 }), (hash, r, s, v) => {
      const signature = signatureOf({ r, s, v })
      const expected = wasm(bytesOf(hash), signature)
      for (const recover of recoverers) {
        assert.deepEqual(recover(bytesOf(hash), signature), expected)
      }
    }),
    { numRuns: 300 },
  )
})

test('keccak in WebAssembly equals the portable implementation for inputs of any length', () => {
  const { keccak256 } = loadKeccak()
  // Lengths around the block size, and around the maximum that fits into the memory.
  const lengths = [0, 1, 135, 136, 137, 271, 272, 320, 64_800, 64_888, 64_889, 70_000]
  for (const length of lengths) {
    const bytes = new Uint8Array(length).fill((length % 251) + 1)
    assert.deepEqual(
      Buffer.from(keccak256(bytes)),
      Buffer.from(portableKeccak.keccak256(bytes)),
      `${length}`,
    )
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 600 }), (bytes) => {
      assert.deepEqual(Buffer.from(keccak256(bytes)), Buffer.from(portableKeccak.keccak256(bytes)))
    }),
  )
  const first = keccak256(new Uint8Array(1))
  const kept = Uint8Array.from(first)
  keccak256(new Uint8Array(2))
  assert.deepEqual(first, kept, 'a hash belongs to its caller')
})

test('the fastest available implementation of signature recovery is used', async () => {
  assert.equal((await loadRecovery()).name, engines[0]?.name)
  assert.equal(engines.at(-1)?.name, 'wasm secp256k1')
})

test('the system’s secp256k1 library refuses digests and signatures of a wrong length', (t) => {
  const system = systemRecovery()
  if (system === undefined) {
    assert(!servicesRequired, 'libsecp256k1 is not installed')
    return t.skip('libsecp256k1 is not installed')
  }
  const [digest, compact] = [new Uint8Array(32), new Uint8Array(64)]
  assert.equal(system.recoverKey(digest, compact, 0), undefined)
  assert.throws(() => system.recoverKey(digest.subarray(1), compact, 0), /lengths/)
  assert.throws(() => system.recoverKey(digest, compact.subarray(1), 0), /lengths/)
  return undefined
})

test('the system’s secp256k1 library is not used if it fails a test with a known signature', async () => {
  // Runs a separate process with a fake library. Each call of the library reports success and writes nothing.
  const script = `
    import { registerHooks } from 'node:module'
    const source = 'module.exports = { load: () => ({ func: () => () => 1 }) }'
    registerHooks({
      resolve: (specifier, context, next) =>
        specifier === 'koffi' ? { url: 'fake:koffi', shortCircuit: true } : next(specifier, context),
      load: (url, context, next) =>
        url === 'fake:koffi' ? { format: 'commonjs', source, shortCircuit: true } : next(url, context),
    })
    const { createRequire } = await import('node:module')
    const { load } = createRequire(import.meta.url)('koffi')
    const { systemRecovery } = await import('#verify/system-recovery.ts')
    process.stdout.write(load('x').func('y')() + ', ' + systemRecovery())
  `
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', script],
    { cwd: new URL('../../', import.meta.url) },
  )
  assert.equal(stdout, '1, undefined')
})

test('without native builds, signature recovery and keccak use WebAssembly', async () => {
  // Runs a separate process in which the native modules cannot be loaded.
  const script = `
    import { registerHooks } from 'node:module'
    registerHooks({
      resolve(specifier, context, next) {
        if (specifier.endsWith('/bindings.js') || specifier === 'koffi') throw new Error('not built')
        return next(specifier, context)
      },
    })
    const { loadRecovery } = await import('#verify/recover.ts')
    const { loadKeccak } = await import('#verify/keccak.ts')
    process.stdout.write((await loadRecovery()).name + ', ' + loadKeccak().name)
  `
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--input-type=module', '--eval', script],
    { cwd: new URL('../../', import.meta.url) },
  )
  assert.equal(stdout, 'wasm secp256k1, wasm keccak')
})
