// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";

/// TEST ONLY. Code that a trader sets for their own account (EIP-7702) to do harm when the
/// account receives outcome tokens.
contract HostileReceiver {
    enum Mode {
        Accept,
        Refuse,
        RefuseHugely,
        AnswerHugely,
        AnswerWrongly,
        BurnGas,
        CallBack,
        WasteGas
    }

    enum Signatures {
        Refuse,
        AcceptAll,
        BurnGas,
        WasteGas
    }

    Mode private _mode;
    Signatures private _signatures;
    address private _target;
    bytes private _data;

    event CalledBack(bool success, bytes returned);

    function arm(Mode mode, address target, bytes calldata data) external {
        _mode = mode;
        _target = target;
        _data = data;
    }

    function armSignatures(Signatures signatures) external {
        _signatures = signatures;
    }

    /// Checks a signature that the account's own key did not make (EIP-1271). `_signatures`
    /// determines whether the check accepts, rejects or burns gas.
    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        if (_signatures == Signatures.BurnGas) {
            while (true) {}
        }
        if (_signatures == Signatures.WasteGas) {
            while (gasleft() > 2_000) {}
        }
        return _signatures == Signatures.AcceptAll || _signatures == Signatures.WasteGas
            ? IERC1271.isValidSignature.selector
            : bytes4(0xffffffff);
    }

    function supportsInterface(bytes4) external pure returns (bool) {
        return true;
    }

    function onERC1155Received(address, address, uint256, uint256, bytes calldata)
        external
        returns (bytes4)
    {
        if (_mode == Mode.Refuse) revert("I do not want it");
        if (_mode == Mode.RefuseHugely) {
            assembly {
                revert(0, 100000)
            }
        }
        if (_mode == Mode.AnswerHugely) {
            assembly {
                return(0, 100000)
            }
        }
        if (_mode == Mode.AnswerWrongly) return 0xdeadbeef;
        if (_mode == Mode.BurnGas) {
            while (true) {}
        }
        // Burns as much gas as the settlement contract allows. The fill still settles.
        if (_mode == Mode.WasteGas) {
            while (gasleft() > 2_000) {}
        }
        if (_mode == Mode.CallBack) {
            (bool success, bytes memory returned) = _target.call(_data);
            emit CalledBack(success, returned);
        }
        return IERC1155Receiver.onERC1155Received.selector;
    }
}
