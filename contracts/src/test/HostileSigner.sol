// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// TEST ONLY. A contract account that checks its signatures (EIP-1271) honestly, or does harm
/// during the check.
contract HostileSigner {
    enum Mode {
        Honest,
        AcceptAll,
        Refuse,
        RefuseHugely,
        AnswerHugely,
        AnswerWrongly,
        AnswerShortly,
        BurnGas,
        CallBack,
        OnlyWithoutGasPrice,
        OnlyInOddBlocks,
        OnlyForCoinbase
    }

    address private immutable _key;
    Mode private _mode;
    address private _target;
    bytes private _data;

    constructor(address key) {
        _key = key;
    }

    function arm(Mode mode, address target, bytes calldata data) external {
        _mode = mode;
        _target = target;
        _data = data;
    }

    /// Makes any call for any account. This is safe, because the contract holds only a test's
    /// money.
    function execute(address target, bytes calldata data) external {
        (bool success, bytes memory returned) = target.call(data);
        if (success) return;
        assembly {
            revert(add(returned, 0x20), mload(returned))
        }
    }

    function isValidSignature(bytes32 digest, bytes calldata signature)
        external
        view
        returns (bytes4)
    {
        bytes4 magic = IERC1271.isValidSignature.selector;
        if (_mode == Mode.AcceptAll) return magic;
        if (_mode == Mode.Refuse) revert("not mine");
        if (_mode == Mode.RefuseHugely) {
            assembly {
                revert(0, 100000)
            }
        }
        if (_mode == Mode.AnswerHugely) {
            assembly {
                mstore(0, magic)
                return(0, 100000)
            }
        }
        if (_mode == Mode.AnswerWrongly) return 0xdeadbeef;
        if (_mode == Mode.AnswerShortly) {
            assembly {
                mstore(0, magic)
                return(0, 4)
            }
        }
        if (_mode == Mode.BurnGas) {
            while (true) {}
        }
        if (_mode == Mode.CallBack) {
            (bool success,) = _target.staticcall(_data);
            return success ? magic : bytes4(0);
        }
        if (_mode == Mode.OnlyWithoutGasPrice) return tx.gasprice == 0 ? magic : bytes4(0);
        if (_mode == Mode.OnlyInOddBlocks) return block.number % 2 == 1 ? magic : bytes4(0);
        if (_mode == Mode.OnlyForCoinbase) return block.coinbase == _target ? magic : bytes4(0);
        (address signer,,) = ECDSA.tryRecover(digest, signature);
        return signer == _key ? magic : bytes4(0);
    }

    function supportsInterface(bytes4) external pure returns (bool) {
        return true;
    }

    function onERC1155Received(address, address, uint256, uint256, bytes calldata)
        external
        pure
        returns (bytes4)
    {
        return IERC1155Receiver.onERC1155Received.selector;
    }

    function onERC1155BatchReceived(
        address,
        address,
        uint256[] calldata,
        uint256[] calldata,
        bytes calldata
    ) external pure returns (bytes4) {
        return IERC1155Receiver.onERC1155BatchReceived.selector;
    }
}
